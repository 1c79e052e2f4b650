// Data of the quant lab.
#include "app/window/model_facts.h"

#include "core/error.h"
#include "core/half.h"
#include "quant/bit_layout.h"
#include "quant/code_map.h"
#include "quant/encode/encode.h"
#include "quant/error_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::app {
namespace {

constexpr int64_t kSampledWeights = 1 << 17; // whole rows; enough for two digits of an RMSE
constexpr int kHistogramBins = 120;
constexpr int kErrorBins = 81; // odd: a bin is centred at zero
constexpr int64_t kSliceRows = 48, kSliceCols = 128;

const gguf::Tensor& find(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  if (!tensor) throw_error("{}: has no tensor '{}'", file.path(), name);
  if (!tensor->type.format())
    throw_error("tensor {} has type {}, which is not a weight type", name, tensor->type.name());
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

void describe(const std::vector<float>& weights, api::TensorStudy& study) {
  double sum = 0, squares = 0;
  study.low = INFINITY;
  study.high = -INFINITY;
  for (const float w : weights) {
    if (!std::isfinite(w)) throw_error("tensor {} has non-finite weights", study.tensor);
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

// The format of AWQ and GPTQ checkpoints: w = (q - z) * s per group, with a binary16 scale s and a zero z of as many
// bits as q. Codes are rounded to nearest, the starting point of both methods.
struct Grouped {
  const char* name;
  const char* meaning;
  int bits, weights;
  double bits_per_weight() const { return bits + static_cast<double>(16 + bits) / weights; }
};
constexpr Grouped kGrouped[] = {
    {"INT4 g128", "groups of AWQ and GPTQ, rounded to nearest", 4, 128},
    {"INT4 g32", "groups of AWQ and GPTQ, rounded to nearest", 4, 32},
    {"INT8 g128", "groups of GPTQ, rounded to nearest", 8, 128},
};

void round_groups(const std::vector<float>& weights, const Grouped& grouped, std::vector<float>& decoded) {
  const auto most = static_cast<float>((1 << grouped.bits) - 1);
  for (size_t first = 0; first < weights.size(); first += grouped.weights) {
    const auto group = std::span(weights).subspan(first, grouped.weights);
    const float low = std::min(0.0f, std::ranges::min(group)), high = std::max(0.0f, std::ranges::max(group));
    const float scale = core::f32_from_f16(core::f16_from_f32(std::max((high - low) / most, 6e-8f))); // not zero
    const float zero = std::clamp(std::round(-low / scale), 0.0f, most);
    for (size_t i = 0; i < group.size(); ++i)
      decoded[first + i] = (std::clamp(std::round(group[i] / scale) + zero, 0.0f, most) - zero) * scale;
  }
}

void compare(const std::vector<float>& weights, const std::vector<float>& decoded, const api::TensorStudy& study,
             api::TensorStudy::Format& tested) {
  quant::ErrorStats stats;
  for (int64_t first = 0; first < std::ssize(weights); first += study.cols)
    stats.add_row(weights.data() + first, decoded.data() + first, study.cols, nullptr);
  tested.rmse = stats.rmse();
  tested.sqnr_db = stats.sqnr_db();
  tested.max_error = stats.max_error;
  tested.errors.assign(kErrorBins, 0);
  tested.errors_wide.assign(kErrorBins, 0);
  const auto count = [](std::vector<float>& bins, double error, double limit) {
    const int bin = limit > 0 ? static_cast<int>((error + limit) / (2 * limit) * kErrorBins) : kErrorBins / 2;
    ++bins[std::clamp(bin, 0, kErrorBins - 1)];
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const double error = static_cast<double>(decoded[i]) - weights[i];
    count(tested.errors, error, tested.max_error);
    count(tested.errors_wide, error, study.rms);
  }
}

// The possible values of each 16 weights: all codes, or the actual values for codebook formats.
std::vector<std::vector<float>> levels_of(const quant::FormatInfo& format, const std::vector<std::byte>& block,
                                          const std::vector<float>& decoded) {
  constexpr size_t kGroup = 16;
  std::vector<std::vector<float>> levels(decoded.size() / kGroup);
  const quant::CodeMap* codes = quant::CodeMap::of(format.type);
  std::vector<quant::Scales> scales(levels.size());
  if (codes) codes->scales(block.data(), scales.data());
  for (size_t g = 0; g < levels.size(); ++g) {
    if (codes)
      for (int pattern = 0; pattern < codes->patterns(); ++pattern)
        levels[g].push_back(scales[g].scale * codes->level(pattern) + scales[g].offset);
    else
      levels[g].assign(decoded.begin() + static_cast<long>(g * kGroup),
                       decoded.begin() + static_cast<long>((g + 1) * kGroup));
    std::ranges::sort(levels[g]);
    levels[g].erase(std::unique(levels[g].begin(), levels[g].end()), levels[g].end());
  }
  return levels;
}

} // namespace

void study_tensor(const gguf::File& file, const std::string& name,
                  const std::function<bool(const api::TensorStudy&)>& publish) {
  const gguf::Tensor& tensor = find(file, name);
  api::TensorStudy study;
  study.tensor = name;
  study.type = tensor.type.name();
  study.cols = tensor.dims[0];
  study.rows = tensor.weights() / study.cols;
  const std::vector<float> weights = sample_rows(tensor, study.rows);
  file.check();
  describe(weights, study);
  std::vector<const quant::FormatInfo*> tried;
  for (const quant::FormatInfo& format : quant::formats())
    if (format.type != tensor.type.format()->type && format.type != quant::Type::F32 &&
        quant::can_encode(format.type) && study.cols % format.block_weights == 0)
      tried.push_back(&format);
  study.formats_to_try = static_cast<int>(tried.size());
  for (const Grouped& grouped : kGrouped) study.formats_to_try += study.cols % grouped.weights == 0;
  if (!publish(study)) return;

  const int64_t rows = std::ssize(weights) / study.cols;
  std::vector<std::byte> packed;
  std::vector<float> decoded(weights.size());
  for (const quant::FormatInfo* format : tried) {
    packed.resize(rows * format->row_bytes(study.cols));
    quant::encode_rows(format->type, weights.data(), rows, study.cols, {}, packed.data());
    format->decode(packed.data(), std::ssize(weights), decoded.data());
    api::TensorStudy::Format tested{std::string(format->name), "", format->bits_per_weight()};
    tested.microscope = quant::find_bit_layout(format->type) != nullptr;
    tested.writable = format->stored();
    tested.packable = true;
    if (!tested.writable) tested.meaning = "packed as in bitsandbytes";
    compare(weights, decoded, study, tested);
    study.formats.push_back(std::move(tested));
    if (!publish(study)) return;
  }
  for (const Grouped& grouped : kGrouped) {
    if (study.cols % grouped.weights != 0) continue;
    round_groups(weights, grouped, decoded);
    api::TensorStudy::Format tested{grouped.name, grouped.meaning, grouped.bits_per_weight()};
    compare(weights, decoded, study, tested);
    study.formats.push_back(std::move(tested));
    if (!publish(study)) return;
  }
}

api::BlockStudy study_block(const gguf::File& file, const api::intent::StudyBlock& wanted) {
  const gguf::Tensor& tensor = find(file, wanted.tensor);
  const quant::FormatInfo* format =
      wanted.format.empty() ? tensor.type.format() : quant::find_format(std::string_view(wanted.format));
  const quant::BitLayout* layout = format ? quant::find_bit_layout(format->type) : nullptr;
  if (!layout)
    throw_error("{}: blocks of this format cannot be shown bit by bit", format ? format->name : wanted.format);
  const int64_t cols = tensor.dims[0], size = format->block_weights;
  if (cols % size != 0)
    throw_error("{}: rows of {} weights cannot be divided into blocks of {}", wanted.tensor, cols, size);

  api::BlockStudy study;
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
    api::BlockStudy::Weight weight{original[i], decoded[i], 0, layout->bits_of(i)};
    for (size_t k = 0; k < weight.bits.size(); ++k)
      weight.code |= (study.bytes[weight.bits[k] / 8] >> weight.bits[k] % 8 & 1) << k;
    study.weights.push_back(std::move(weight));
  }
  study.levels = levels_of(*format, bytes, decoded);
  return study;
}

api::SliceStudy study_slice(const gguf::File& file, const api::intent::StudySlice& wanted) {
  const gguf::Tensor& tensor = find(file, wanted.tensor);
  const quant::FormatInfo* format =
      wanted.format.empty() ? tensor.type.format() : quant::find_format(std::string_view(wanted.format));
  if (!format) throw_error("unknown format '{}'", wanted.format);
  const int64_t cols = tensor.dims[0], rows = tensor.weights() / cols, size = format->block_weights;
  const bool stored = format->type == tensor.type.format()->type;
  if (cols % size != 0)
    throw_error("{}: rows of {} weights cannot be divided into blocks of {}", wanted.tensor, cols, size);
  if (!stored && !quant::can_encode(format->type)) throw_error("{} can be read but not written", format->name);
  api::SliceStudy study;
  study.tensor = wanted.tensor;
  study.format = wanted.format;
  study.rows = static_cast<int>(std::min(rows, kSliceRows));
  study.cols = static_cast<int>(std::min(cols, kSliceCols));
  study.first_row = std::clamp<int64_t>(wanted.first_row, 0, rows - study.rows);
  study.first_col = std::clamp<int64_t>(wanted.first_col, 0, cols - study.cols);
  const int64_t begin = study.first_col / size * size;
  const int64_t end = std::min((study.first_col + study.cols + size - 1) / size * size, cols);
  const quant::BitLayout* layout = quant::find_bit_layout(format->type);
  std::vector<std::byte> packed(format->row_bytes(end - begin));
  std::vector<float> decoded(end - begin);
  double squares = 0;
  for (int r = 0; r < study.rows; ++r) {
    const int64_t row = study.first_row + r;
    const std::vector<float> weights = decode_row(tensor, row);
    if (stored)
      std::copy_n(tensor.data.data() + row * format->row_bytes(cols) + format->row_bytes(begin), packed.size(),
                  packed.data());
    else
      quant::encode_rows(format->type, weights.data() + begin, 1, end - begin, {}, packed.data());
    format->decode(packed.data(), end - begin, decoded.data());
    for (int64_t c = study.first_col; c < study.first_col + study.cols; ++c) {
      study.original.push_back(weights[c]);
      study.decoded.push_back(decoded[c - begin]);
      squares += static_cast<double>(weights[c]) * weights[c];
      if (!layout) continue;
      const std::byte* block = packed.data() + format->row_bytes((c - begin) / size * size);
      std::string bits;
      for (const int bit : layout->bits_of(static_cast<int>((c - begin) % size)))
        bits.insert(0, 1, (block[bit / 8] >> bit % 8 & std::byte{1}) != std::byte{} ? '1' : '0');
      study.bits.push_back(std::move(bits));
    }
  }
  file.check();
  study.rms = std::sqrt(squares / static_cast<double>(study.original.size()));
  return study;
}

} // namespace ridge::app
