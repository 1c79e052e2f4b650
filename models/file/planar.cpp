#include "models/file/planar.h"

#include "core/error.h"
#include "core/half.h"
#include "core/strings/printable.h"
#include "quant/formats/affine4.h"
#include "quant/formats/affine8.h"
#include "quant/formats/fp4.h"
#include "quant/formats/fp8_e4m3.h"
#include "quant/formats/nf4.h"
#include "quant/formats/nvfp4_scaled.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ridge::models {
namespace {

bool is(const gguf::Tensor& tensor, gguf::TensorType type) { return tensor.type == type; }

float float_at(const gguf::Tensor& tensor, int64_t i) {
  if (is(tensor, quant::Type::F32)) {
    float value;
    std::memcpy(&value, tensor.data.data() + 4 * i, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tensor.data.data() + 2 * i, 2);
  return is(tensor, quant::Type::F16) ? core::f32_from_f16(bits) : core::f32_from_bf16(bits);
}

} // namespace

struct PlanarWeight::KnownScheme {
  std::string_view name;
  Scheme scheme;
  int bits;
};
const PlanarWeight::KnownScheme PlanarWeight::kKnown[] = {
    {"affine2", Scheme::affine, 2},   {"affine3", Scheme::affine, 3}, {"affine4", Scheme::affine, 4},
    {"affine8", Scheme::affine, 8},   {"nf4", Scheme::nf4, 4},        {"fp4", Scheme::fp4, 4},
    {"fp8_e4m3", Scheme::fp8_e4m3, 8}};

std::string PlanarWeight::scheme() const {
  for (const KnownScheme& known : kKnown)
    if (known.scheme == scheme_ && known.bits == bits_) return std::string(known.name);
  return "nvfp4";
}

std::vector<std::string> PlanarWeight::names(const gguf::File& file) {
  constexpr std::string_view kSuffix = ".qdata";
  std::vector<std::string> names;
  for (const gguf::Tensor& tensor : file.tensors())
    if (tensor.name.ends_with(kSuffix)) names.emplace_back(tensor.name.substr(0, tensor.name.size() - kSuffix.size()));
  return names;
}

std::optional<PlanarWeight> PlanarWeight::find(const gguf::File& file, const std::string& name) {
  PlanarWeight weight;
  weight.name_ = name;
  if (const gguf::Tensor* tensor = file.find_tensor(name)) {
    constexpr std::string_view kSuffix = ".weight";
    if (!is(*tensor, quant::Type::NVFP4) || !name.ends_with(kSuffix)) return std::nullopt;
    weight.scales_ = file.find_tensor(name.substr(0, name.size() - kSuffix.size()) + ".scale");
    if (!weight.scales_) return std::nullopt;
    weight.qdata_ = tensor;
    weight.read_parts(file, Scheme::nvfp4, 4);
    return weight;
  }
  weight.qdata_ = file.find_tensor(name + ".qdata");
  if (!weight.qdata_) return std::nullopt;
  const std::string_view scheme = file.get_string("ridge.quant.scheme");
  for (const KnownScheme& known : kKnown)
    if (scheme == known.name) {
      weight.read_parts(file, known.scheme, known.bits);
      return weight;
    }
  std::vector<std::string_view> names;
  for (const KnownScheme& known : kKnown) names.push_back(known.name);
  throw_error("{}: ridge.quant.scheme is '{}'; expected one of {}", file.path(), core::printable(scheme),
              fmt::join(names, ", "));
}

void PlanarWeight::read_parts(const gguf::File& file, Scheme scheme, int bits) {
  scheme_ = scheme;
  bits_ = bits;
  const auto fail = [&](const gguf::Tensor& tensor, std::string_view expected) {
    throw_error("{}: tensor {}: expected {}, found {} [{}, {}, {}, {}]", file.path(), core::printable(tensor.name),
                expected, tensor.type.name(), tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]);
  };
  rows_ = qdata_->dims[1];
  count_ = qdata_->dims[2];
  if (qdata_->dims[3] != 1) fail(*qdata_, "at most three dimensions");
  if (scheme == Scheme::nvfp4) {
    cols_ = qdata_->dims[0];
    if (!is(*scales_, quant::Type::F32) || scales_->weights() != count_)
      fail(*scales_, fmt::format("F32, one value for each of {} matrices", count_));
    type_ = quant::Type::NVFP4_SCALED;
    return;
  }

  const auto part = [&](const char* suffix) { return file.find_tensor(name_ + suffix); };
  const bool leveled = scheme == Scheme::nf4 || scheme == Scheme::fp4;
  scales_ = part(leveled ? ".absmax" : ".scales");
  if (!scales_)
    throw_error("{}: tensor {}{} is missing", file.path(), core::printable(name_), leveled ? ".absmax" : ".scales");
  if (!is(*qdata_, gguf::PlainType::I8)) fail(*qdata_, "type I8");
  const bool floats =
      is(*scales_, quant::Type::F32) || is(*scales_, quant::Type::F16) || is(*scales_, quant::Type::BF16);
  if (!floats || scales_->dims[1] != rows_ || scales_->dims[2] != count_ || scales_->dims[3] != 1)
    fail(*scales_, fmt::format("values of shape [groups, {}, {}]", rows_, count_));
  groups_ = scales_->dims[0];

  if (qdata_->dims[0] > INT64_MAX / 8 || qdata_->dims[0] * 8 % bits_ != 0)
    fail(*qdata_, fmt::format("rows of whole {}-bit codes", bits_));
  cols_ = qdata_->dims[0] * 8 / bits_;
  zeros_ = scheme == Scheme::affine ? part(".zeros") : nullptr;
  if (zeros_ && (!is(*zeros_, gguf::PlainType::I8) || zeros_->dims != scales_->dims))
    fail(*zeros_, "type I8 and the shape of the scales");
  perm_ = part(".perm");
  if (perm_) {
    if (!is(*perm_, gguf::PlainType::I32) || perm_->dims[0] != cols_ || perm_->weights() != cols_)
      fail(*perm_, fmt::format("{} I32 values", cols_));
    std::vector<bool> seen(cols_);
    for (int64_t i = 0; i < cols_; ++i) {
      int32_t from;
      std::memcpy(&from, perm_->data.data() + 4 * i, 4);
      if (from < 0 || from >= cols_ || seen[from]) fail(*perm_, "every column exactly once");
      seen[from] = true;
    }
  }

  if (scheme == Scheme::nf4) type_ = quant::Type::NF4;
  if (scheme == Scheme::fp4) type_ = quant::Type::FP4;
  if (scheme == Scheme::fp8_e4m3) type_ = quant::Type::FP8_E4M3;
  if (scheme == Scheme::affine)
    type_ =
        bits_ <= 4 && is(*scales_, quant::Type::F16) && cols_ % 64 == 0 ? quant::Type::AFFINE4 : quant::Type::AFFINE8;
  const int64_t block = scheme == Scheme::affine ? 32 : 64; // columns per scale
  if (groups_ > cols_ || cols_ % groups_ != 0 || cols_ / groups_ % block != 0)
    fail(*scales_, fmt::format("groups of a multiple of {} that divide the {} columns", block, cols_));
  group_ = cols_ / groups_;
}

uint64_t PlanarWeight::file_bytes() const {
  uint64_t bytes = 0;
  for (const gguf::Tensor* tensor : tensors()) bytes += tensor->data.size();
  return bytes;
}

std::vector<const gguf::Tensor*> PlanarWeight::tensors() const {
  std::vector<const gguf::Tensor*> all = {qdata_, scales_};
  for (const gguf::Tensor* tensor : {zeros_, perm_})
    if (tensor) all.push_back(tensor);
  return all;
}

void PlanarWeight::codes(int64_t row, uint8_t* out) const {
  const auto* stream = reinterpret_cast<const uint8_t*>(qdata_->data.data()) + row * qdata_->dims[0];
  if (bits_ == 8) {
    std::copy_n(stream, cols_, out);
    return;
  }
  uint32_t window = 0;
  int held = 0;
  const uint32_t mask = (1u << bits_) - 1;
  for (int64_t i = 0; i < cols_; ++i) {
    if (held < bits_) {
      window |= static_cast<uint32_t>(*stream++) << held;
      held += 8;
    }
    out[i] = static_cast<uint8_t>(window & mask);
    window >>= bits_;
    held -= bits_;
  }
}

PlanarWeight::Row PlanarWeight::read_row(int64_t row) const {
  Row read{std::vector<uint8_t>(cols_), std::vector<float>(groups_)};
  codes(row, read.codes.data());
  for (int64_t g = 0; g < groups_; ++g) read.scales[g] = float_at(*scales_, row * groups_ + g);
  return read;
}

int PlanarWeight::zero(int64_t row, int64_t group) const {
  if (!zeros_) return 1 << (bits_ - 1);
  const int stored = static_cast<int8_t>(zeros_->data[row * groups_ + group]);
  return bits_ == 8 ? stored + 128 : stored;
}

void PlanarWeight::assemble_row(int64_t row, std::byte* out) const {
  if (scheme_ == Scheme::nvfp4) {
    const auto* blocks = reinterpret_cast<const quant::NVFP4*>(qdata_->data.data()) + row * (cols_ / 64);
    auto* to = reinterpret_cast<quant::NVFP4_SCALED*>(out);
    const float scale = float_at(*scales_, row / rows_);
    for (int64_t b = 0; b < cols_ / 64; ++b) {
      to[b].m = quant::SplitFloat::from(scale);
      to[b].block = blocks[b];
    }
    return;
  }
  const Row read = read_row(row);
  const std::vector<uint8_t>& code = read.codes;
  const std::vector<float>& scale = read.scales;
  const auto each_32 = [&](auto store) {
    for (int64_t i = 0; i < cols_ / 32; ++i) store(i, code.data() + 32 * i, 32 * i / group_);
  };
  const auto store_levels = [&](auto* blocks) {
    for (int64_t i = 0; i < cols_ / 64; ++i) blocks[i].d = quant::SplitFloat::from(scale[64 * i / group_]);
    each_32([&](int64_t i, const uint8_t* q, int64_t) { store_nibbles(q, 16, blocks[i / 2].qs + 16 * (i % 2)); });
  };
  switch (type_) {
  case quant::Type::AFFINE4: {
    auto* blocks = reinterpret_cast<quant::AFFINE4*>(out);
    each_32([&](int64_t i, const uint8_t* q, int64_t g) {
      blocks[i / 2].d[i % 2] = {core::f16_from_f32(scale[g])};
      blocks[i / 2].z[i % 2] = static_cast<int8_t>(zero(row, g));
      store_nibbles(q, 16, blocks[i / 2].qs + 16 * (i % 2));
    });
    break;
  }
  case quant::Type::AFFINE8: {
    auto* blocks = reinterpret_cast<quant::AFFINE8*>(out);
    each_32([&](int64_t i, const uint8_t* q, int64_t g) {
      // 8-bit codes are stored minus 128; the offset compensates for that.
      const int zero_point = zero(row, g), middle = bits_ == 8 ? 128 : zero_point;
      for (int k = 0; k < 32; ++k) blocks[i].qs[k] = static_cast<int8_t>(q[k] - middle);
      blocks[i].d = quant::SplitFloat::from(scale[g]);
      blocks[i].m = quant::SplitFloat::from(scale[g] * static_cast<float>(middle - zero_point));
    });
    break;
  }
  case quant::Type::NF4: store_levels(reinterpret_cast<quant::NF4*>(out)); break;
  case quant::Type::FP4: store_levels(reinterpret_cast<quant::FP4*>(out)); break;
  default: {
    auto* blocks = reinterpret_cast<quant::FP8_E4M3*>(out);
    for (int64_t i = 0; i < cols_ / 64; ++i) {
      blocks[i].d = quant::SplitFloat::from(scale[64 * i / group_]);
      std::copy_n(code.data() + 64 * i, 64, blocks[i].qs);
    }
  }
  }
}

void PlanarWeight::decode_row(int64_t row, float* out) const {
  if (scheme_ == Scheme::nvfp4) {
    std::vector<std::byte> blocks(quant::format(type_).row_bytes(cols_));
    assemble_row(row, blocks.data());
    return quant::format(type_).decode(blocks.data(), cols_, out);
  }
  const Row read = read_row(row);
  const std::vector<uint8_t>& code = read.codes;
  const std::vector<float>& scale = read.scales;
  for (int64_t i = 0; i < cols_; ++i) {
    const int64_t g = i / group_;
    switch (scheme_) {
    case Scheme::affine: out[i] = scale[g] * static_cast<float>(code[i] - zero(row, g)); break;
    case Scheme::nf4: out[i] = scale[g] * kNf4Levels[code[i]]; break;
    case Scheme::fp4: out[i] = scale[g] * kFp4Levels[code[i]]; break;
    default: out[i] = (code[i] & 0x7f) == 0x7f ? NAN : scale[g] * core::f32_from_e4m3(code[i]);
    }
  }
}

int32_t PlanarWeight::input_of(int64_t column) const {
  auto input = static_cast<int32_t>(column);
  if (perm_) std::memcpy(&input, perm_->data.data() + 4 * column, 4);
  return input;
}

std::vector<int32_t> PlanarWeight::input_order() const {
  std::vector<int32_t> order;
  if (!perm_) return order;
  for (int64_t i = 0; i < cols_; ++i) order.push_back(input_of(i));
  return order;
}

void PlanarWeight::assemble(int64_t first, int64_t count, std::byte* out) const {
  const int64_t row_bytes = quant::format(type_).row_bytes(cols_);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < count; ++r) assemble_row(first + r, out + r * row_bytes);
}

void PlanarWeight::decode(int64_t first, int64_t count, float* out) const {
  std::vector<float> row(cols_);
  for (int64_t r = 0; r < count; ++r) {
    decode_row(first + r, row.data());
    for (int64_t i = 0; i < cols_; ++i) out[r * cols_ + input_of(i)] = row[i];
  }
}

} // namespace ridge::models
