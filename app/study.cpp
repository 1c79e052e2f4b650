// The quant lab's numbers: what a tensor's weights look like, what each format makes of them, and one block bit by bit.
#include "app/model_facts.h"

#include "core/error.h"
#include "quant/bit_layout.h"
#include "quant/encode.h"
#include "quant/error_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::app {
namespace {

constexpr int64_t kSampledWeights = 1 << 17; // whole rows, spread over the tensor: enough for two digits of an RMSE
constexpr int kHistogramBins = 120;
constexpr int64_t kSliceRows = 48, kSliceCols = 128;

const gguf::Tensor& find(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  if (!tensor) throw_error("{}: has no tensor '{}'", file.path(), name);
  if (!tensor->type.format()) throw_error("tensor {} has type {}, which holds no weights", name, tensor->type.name());
  return *tensor;
}

std::vector<float> decode_row(const gguf::Tensor& tensor, int64_t row) {
  const quant::FormatInfo& format = *tensor.type.format();
  std::vector<float> weights(tensor.dims[0]);
  format.decode(tensor.data.data() + row * format.row_bytes(tensor.dims[0]), tensor.dims[0], weights.data());
  return weights;
}

std::vector<float> sample_rows(const gguf::Tensor& tensor, int64_t rows) {
  const int64_t cols = tensor.dims[0], taken = std::clamp<int64_t>(kSampledWeights / cols, 1, rows);
  std::vector<float> weights;
  weights.reserve(taken * cols);
  for (int64_t i = 0; i < taken; ++i) {
    const std::vector<float> row = decode_row(tensor, i * rows / taken);
    weights.insert(weights.end(), row.begin(), row.end());
  }
  return weights;
}

void describe(const std::vector<float>& weights, core::TensorStudy& study) {
  double sum = 0, squares = 0;
  study.low = INFINITY;
  study.high = -INFINITY;
  for (const float w : weights) {
    if (!std::isfinite(w)) throw_error("tensor {} holds weights that are not finite", study.tensor);
    study.low = std::min<double>(study.low, w);
    study.high = std::max<double>(study.high, w);
    sum += w;
    squares += static_cast<double>(w) * w;
  }
  study.sampled = std::ssize(weights);
  study.mean = sum / static_cast<double>(study.sampled);
  study.rms = std::sqrt(squares / static_cast<double>(study.sampled));
  study.histogram.assign(kHistogramBins, 0);
  const double width = (study.high - study.low) / kHistogramBins;
  for (const float w : weights) {
    const int bin = width > 0 ? static_cast<int>((w - study.low) / width) : 0;
    ++study.histogram[std::clamp(bin, 0, kHistogramBins - 1)];
  }
}

} // namespace

void study_tensor(const gguf::File& file, const std::string& name,
                  const std::function<bool(const core::TensorStudy&)>& publish) {
  const gguf::Tensor& tensor = find(file, name);
  core::TensorStudy study;
  study.tensor = name;
  study.type = tensor.type.name();
  study.cols = tensor.dims[0];
  study.rows = tensor.weights() / study.cols;
  const std::vector<float> weights = sample_rows(tensor, study.rows);
  file.check();
  describe(weights, study);
  study.slice_rows = static_cast<int>(std::min(study.rows, kSliceRows));
  study.slice_cols = static_cast<int>(std::min(study.cols, kSliceCols));
  for (int r = 0; r < study.slice_rows; ++r) {
    const std::vector<float> row = decode_row(tensor, r);
    study.slice.insert(study.slice.end(), row.begin(), row.begin() + study.slice_cols);
  }

  std::vector<const quant::FormatInfo*> tried;
  for (const quant::FormatInfo& format : quant::formats())
    if (format.type != tensor.type.format()->type && format.type != quant::Type::F32 &&
        quant::can_encode(format.type) && study.cols % format.block_weights == 0)
      tried.push_back(&format);
  study.formats_to_try = static_cast<int>(tried.size());
  if (!publish(study)) return;

  const int64_t rows = std::ssize(weights) / study.cols;
  std::vector<std::byte> packed;
  std::vector<float> decoded(weights.size());
  for (const quant::FormatInfo* format : tried) {
    packed.resize(rows * format->row_bytes(study.cols));
    quant::encode_rows(format->type, weights.data(), rows, study.cols, {}, packed.data());
    format->decode(packed.data(), std::ssize(weights), decoded.data());
    quant::ErrorStats stats;
    for (int64_t r = 0; r < rows; ++r)
      stats.add_row(weights.data() + r * study.cols, decoded.data() + r * study.cols, study.cols, nullptr);
    study.formats.push_back({std::string(format->name), format->bits_per_weight(), stats.rmse(), stats.sqnr_db(),
                             quant::find_bit_layout(format->type) != nullptr});
    if (!publish(study)) return;
  }
}

core::BlockStudy study_block(const gguf::File& file, const core::intent::StudyBlock& wanted) {
  const gguf::Tensor& tensor = find(file, wanted.tensor);
  const quant::FormatInfo* format =
      wanted.format.empty() ? tensor.type.format() : quant::find_format(std::string_view(wanted.format));
  const quant::BitLayout* layout = format ? quant::find_bit_layout(format->type) : nullptr;
  if (!layout)
    throw_error("{}: blocks of this format cannot be shown bit by bit", format ? format->name : wanted.format);
  const int64_t cols = tensor.dims[0], size = format->block_weights;
  if (cols % size != 0) throw_error("{}: rows of {} weights are no whole blocks of {}", wanted.tensor, cols, size);

  core::BlockStudy study;
  study.tensor = wanted.tensor;
  study.format = format->name;
  study.blocks = tensor.weights() / size;
  study.block = std::clamp<int64_t>(wanted.block, 0, study.blocks - 1);
  study.stored = format->type == tensor.type.format()->type;
  const int64_t per_row = cols / size, row = study.block / per_row;
  const std::vector<float> row_weights = decode_row(tensor, row);
  const float* original = row_weights.data() + study.block % per_row * size;

  std::vector<std::byte> bytes(format->block_bytes);
  if (study.stored)
    std::copy_n(tensor.data.data() + study.block * format->block_bytes, format->block_bytes, bytes.data());
  else
    quant::encode_rows(format->type, original, 1, size, {}, bytes.data());
  std::vector<float> decoded(size);
  format->decode(bytes.data(), size, decoded.data());

  file.check();
  for (const std::byte b : bytes) study.bytes.push_back(static_cast<uint8_t>(b));
  for (const quant::BitField& field : layout->fields)
    study.fields.push_back({field.name, field.meaning, field.first_byte, field.bytes});
  for (int i = 0; i < size; ++i) {
    core::BlockStudy::Weight weight{original[i], decoded[i], 0, layout->bits_of(i)};
    for (size_t k = 0; k < weight.bits.size(); ++k)
      weight.code |= (study.bytes[weight.bits[k] / 8] >> weight.bits[k] % 8 & 1) << k;
    study.weights.push_back(std::move(weight));
  }
  return study;
}

} // namespace ridge::app
