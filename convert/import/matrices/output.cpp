#include "convert/import/matrices/output.h"

#include "core/error.h"
#include "core/half.h"
#include "models/file/planar.h"
#include "quant/encode/encode.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace ridge::convert::import {
namespace {

using models::store_nibbles;
using Matrices = std::shared_ptr<const std::vector<Matrix>>;

constexpr int64_t kPieceBytes = 4 << 20;

// Calls `use(numbers, first, count)` with [count][width] pieces.
template <typename T, typename Use>
void for_pieces(const Matrix& matrix, int64_t width, const Matrix::Reader<T>& read, Use&& use) {
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / (static_cast<int64_t>(sizeof(T)) * width));
  std::vector<T> numbers;
  for (int64_t first = 0; first < matrix.rows; first += piece) {
    const int64_t count = std::min(piece, matrix.rows - first);
    numbers.resize(count * width);
    read(first, count, numbers.data());
    use(numbers, first, count);
  }
}

quant::Type type_of(gguf::Dtype dtype) {
  if (dtype == gguf::Dtype::F16) return quant::Type::F16;
  return dtype == gguf::Dtype::BF16 ? quant::Type::BF16 : quant::Type::F32;
}

void encode(quant::Type type, const std::vector<float>& numbers, int64_t cols, std::vector<std::byte>& out,
            const std::string& name) {
  const int64_t rows = std::ssize(numbers) / cols;
  out.resize(rows * quant::format(type).row_bytes(cols));
  try {
    quant::encode_rows_parallel(type, numbers.data(), rows, cols, {}, out.data());
    quant::check_range(type, numbers.data(), out.data(), rows, cols);
  } catch (const Error& error) {
    throw_error("tensor {}: {}", name, error.what());
  }
}

// Determine the output format. Computing them reads scales and zeros only.
struct AffineTraits {
  bool half_scales = true; // exact in binary16
  bool symmetric = true;   // each zero is 2^(bits - 1)
};
AffineTraits traits_of(const Matrix& matrix, const std::string& name) {
  AffineTraits traits;
  for_pieces(matrix, matrix.groups(), matrix.scales, [&](const std::vector<float>& scales, int64_t, int64_t) {
    for (const float scale : scales) {
      if (!std::isfinite(scale)) throw_error("{}: a scale is NaN or infinite: the checkpoint is damaged", name);
      traits.half_scales &= core::f32_from_f16(core::f16_from_f32(scale)) == scale;
    }
  });
  if (matrix.zeros)
    for_pieces(matrix, matrix.groups(), matrix.zeros, [&](const std::vector<int16_t>& zeros, int64_t, int64_t) {
      for (const int16_t zero : zeros) traits.symmetric &= zero == 1 << (matrix.bits - 1);
    });
  return traits;
}

// Packs codes and scales into blocks of an equivalent GGUF type.
template <typename Block, typename Scale>
void pack_blocks(const Matrix& matrix, const Matrix::Reader<Scale>& read_scales, const Sink& sink,
                 void (*pack)(const uint8_t* codes, const Scale* scales, Block& out)) {
  const int64_t blocks = matrix.cols / Block::kWeights, groups = matrix.groups();
  const int64_t scales_of_block = std::max<int64_t>(1, Block::kWeights / matrix.group);
  // All scales at once: a few percent of the codes' memory.
  std::vector<Scale> scales;
  for_pieces(matrix, groups, read_scales, [&](const std::vector<Scale>& piece, int64_t, int64_t) {
    scales.insert(scales.end(), piece.begin(), piece.end());
  });
  std::vector<Block> out;
  for_pieces(matrix, matrix.cols, matrix.codes, [&](const std::vector<uint8_t>& codes, int64_t first, int64_t count) {
    out.resize(count * blocks);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t group = scales_of_block > 1 ? b * scales_of_block : b * Block::kWeights / matrix.group;
        pack(codes.data() + r * matrix.cols + b * Block::kWeights, scales.data() + (first + r) * groups + group,
             out[r * blocks + b]);
      }
    sink(std::as_bytes(std::span(out)));
  });
}

void write_blocks(const Matrix& matrix, quant::Type type, const Sink& sink) {
  using namespace quant;
  switch (type) {
  case Type::Q4_0:
    return pack_blocks<Q4_0, float>(matrix, matrix.scales, sink, [](const uint8_t* q, const float* s, Q4_0& out) {
      out.d = {core::f16_from_f32(*s)};
      store_nibbles(q, 16, out.qs);
    });
  case Type::Q8_0:
    return pack_blocks<Q8_0, float>(matrix, matrix.scales, sink, [](const uint8_t* q, const float* s, Q8_0& out) {
      out.d = {core::f16_from_f32(*s)};
      for (int i = 0; i < 32; ++i) out.qs[i] = static_cast<int8_t>(q[i] - 128);
    });
  case Type::MXFP4:
    return pack_blocks<MXFP4, uint8_t>(matrix, matrix.scale_bytes, sink,
                                       [](const uint8_t* q, const uint8_t* s, MXFP4& out) {
                                         out.e = *s;
                                         store_nibbles(q, 16, out.qs);
                                       });
  case Type::NVFP4:
    return pack_blocks<NVFP4, uint8_t>(matrix, matrix.scale_bytes, sink,
                                       [](const uint8_t* q, const uint8_t* s, NVFP4& out) {
                                         std::copy_n(s, 4, out.d);
                                         for (int i = 0; i < 4; ++i) store_nibbles(q + 16 * i, 8, out.qs + 8 * i);
                                       });
  default: throw std::logic_error("convert: no such block");
  }
}

// Writes the codes as a bit stream, lowest bit first.
void pack_bits(const uint8_t* codes, int64_t count, int bits, uint8_t* out) {
  uint32_t window = 0;
  int held = 0;
  for (int64_t i = 0; i < count; ++i) {
    window |= static_cast<uint32_t>(codes[i]) << held;
    for (held += bits; held >= 8; held -= 8, window >>= 8) *out++ = static_cast<uint8_t>(window);
  }
}

std::string scheme_name(const Matrix& matrix) {
  switch (matrix.scheme) {
  case Scheme::affine: return fmt::format("affine{}", matrix.bits);
  case Scheme::nf4: return "nf4";
  case Scheme::fp4: return "fp4";
  default: return "fp8_e4m3";
  }
}

class OutputsOf {
 public:
  OutputsOf(std::vector<Matrix> matrices, std::string name)
      : all_(std::make_shared<const std::vector<Matrix>>(std::move(matrices))), first_(all_->front()),
        name_(std::move(name)) {
    for (const Matrix& matrix : *all_) {
      if (matrix.scheme != first_.scheme || matrix.bits != first_.bits || matrix.group != first_.group ||
          !matrix.zeros != !first_.zeros || matrix.order != first_.order)
        throw_error("{}: the experts are packed in different ways, which cannot be converted", name_);
      parts_.insert(parts_.end(), matrix.parts.begin(), matrix.parts.end());
    }
  }

  std::vector<Output> make(std::optional<quant::Type> type, std::string& planar_scheme) {
    switch (first_.scheme) {
    case Scheme::plain: plain(type.value_or(type_of(first_.dtype))); break;
    case Scheme::mxfp4: blocks(quant::Type::MXFP4); break;
    case Scheme::nvfp4: {
      blocks(quant::Type::NVFP4);
      std::vector<float> scales;
      for (const Matrix& matrix : *all_) scales.push_back(matrix.matrix_scale);
      if (std::ranges::any_of(scales, [](float scale) { return scale != 1; }))
        add(".scale", quant::Type::F32, {std::ssize(scales)},
            [scales](const Sink& sink) { sink(std::as_bytes(std::span(scales))); });
      break;
    }
    case Scheme::affine: {
      bool half_scales = true, symmetric = true;
      for (const Matrix& matrix : *all_) {
        const AffineTraits traits = traits_of(matrix, name_);
        half_scales &= traits.half_scales;
        symmetric &= traits.symmetric;
      }
      const bool ordinary = half_scales && symmetric && first_.order.empty();
      if (ordinary && first_.bits == 4)
        blocks(quant::Type::Q4_0);
      else if (ordinary && first_.bits == 8)
        blocks(quant::Type::Q8_0);
      else
        planar(half_scales, symmetric, planar_scheme);
      break;
    }
    default: planar(false, true, planar_scheme);
    }
    outputs_.back().parts = parts_;
    return std::move(outputs_);
  }

 private:
  void add(const std::string& suffix, gguf::TensorType type, std::vector<int64_t> dims,
           std::function<void(const Sink&)> write) {
    outputs_.push_back({{name_ + suffix, type, std::move(dims)}, std::move(write), {}});
  }
  std::vector<int64_t> dims(int64_t width) const {
    std::vector<int64_t> dims = {width, first_.rows};
    if (all_->size() > 1) dims.push_back(std::ssize(*all_));
    return dims;
  }

  void plain(quant::Type type) {
    if (first_.cols % quant::format(type).block_weights != 0) type = quant::Type::F16;
    add(".weight", type, dims(first_.cols), [all = all_, type, name = name_](const Sink& sink) {
      std::vector<std::byte> packed;
      for (const Matrix& matrix : *all)
        for_pieces(matrix, matrix.cols, matrix.floats, [&](const std::vector<float>& numbers, int64_t, int64_t) {
          encode(type, numbers, matrix.cols, packed, name);
          sink(packed);
        });
    });
  }

  void blocks(quant::Type type) {
    add(".weight", type, dims(first_.cols), [all = all_, type](const Sink& sink) {
      for (const Matrix& matrix : *all) write_blocks(matrix, type, sink);
    });
  }

  void planar(bool half_scales, bool symmetric, std::string& planar_scheme) {
    const std::string scheme = scheme_name(first_);
    if (planar_scheme.empty()) planar_scheme = scheme;
    if (planar_scheme != scheme)
      throw_error("{}: is packed as {}, but other matrices as {}: such a mix cannot be converted", name_, scheme,
                  planar_scheme);
    const bool leveled = first_.scheme == Scheme::nf4 || first_.scheme == Scheme::fp4;
    const int bits = first_.scheme == Scheme::affine ? first_.bits : leveled ? 4 : 8;
    add(".weight.qdata", gguf::PlainType::I8, dims(first_.cols * bits / 8), [all = all_, bits](const Sink& sink) {
      std::vector<uint8_t> packed;
      for (const Matrix& matrix : *all)
        for_pieces(matrix, matrix.cols, matrix.codes, [&](const std::vector<uint8_t>& codes, int64_t, int64_t count) {
          const int64_t row_bytes = matrix.cols * bits / 8;
          packed.resize(count * row_bytes);
          for (int64_t r = 0; r < count; ++r)
            pack_bits(codes.data() + r * matrix.cols, matrix.cols, bits, packed.data() + r * row_bytes);
          sink(std::as_bytes(std::span(packed)));
        });
    });
    const quant::Type scale_type = half_scales ? quant::Type::F16 : quant::Type::F32;
    add(leveled ? ".weight.absmax" : ".weight.scales", scale_type, dims(first_.groups()),
        [all = all_, scale_type, name = name_](const Sink& sink) {
          std::vector<std::byte> packed;
          for (const Matrix& matrix : *all)
            for_pieces(matrix, matrix.groups(), matrix.scales, [&](const std::vector<float>& scales, int64_t, int64_t) {
              encode(scale_type, scales, matrix.groups(), packed, name);
              sink(packed);
            });
        });
    if (!symmetric)
      add(".weight.zeros", gguf::PlainType::I8, dims(first_.groups()),
          [all = all_, less = bits == 8 ? 128 : 0](const Sink& sink) {
            std::vector<int8_t> stored;
            for (const Matrix& matrix : *all)
              for_pieces(matrix, matrix.groups(), matrix.zeros,
                         [&](const std::vector<int16_t>& zeros, int64_t, int64_t) {
                           stored.clear();
                           for (const int16_t zero : zeros) stored.push_back(static_cast<int8_t>(zero - less));
                           sink(std::as_bytes(std::span(stored)));
                         });
          });
    if (!first_.order.empty())
      add(".weight.perm", gguf::PlainType::I32, {first_.cols},
          [all = all_](const Sink& sink) { sink(std::as_bytes(std::span(all->front().order))); });
  }

  Matrices all_;
  const Matrix& first_;
  std::string name_;
  std::vector<const gguf::SafeTensor*> parts_;
  std::vector<Output> outputs_;
};

} // namespace

std::vector<Output> outputs_of(std::vector<Matrix> matrices, const std::string& name, std::optional<quant::Type> type,
                               std::string& planar_scheme) {
  return OutputsOf(std::move(matrices), name).make(type, planar_scheme);
}

Output vector_output(std::vector<Matrix> vectors, std::string name, std::vector<int64_t> dims) {
  std::vector<const gguf::SafeTensor*> parts = vectors.front().parts;
  const auto all = std::make_shared<const std::vector<Matrix>>(std::move(vectors));
  const auto write = [all](const Sink& sink) {
    for (const Matrix& matrix : *all) {
      std::vector<float> values(matrix.rows);
      matrix.floats(0, matrix.rows, values.data());
      sink(std::as_bytes(std::span(values)));
    }
  };
  return {{std::move(name), quant::Type::F32, std::move(dims)}, write, std::move(parts)};
}

std::vector<uint64_t> integers(const gguf::SafeTensor& tensor, const std::string& path) {
  if (tensor.dtype != gguf::Dtype::I64) throw_error("{}: tensor {}: expected 64-bit integers", path, tensor.name);
  std::vector<uint64_t> values(tensor.elements());
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof values[0]);
  for (const uint64_t value : values)
    if (value > INT64_MAX)
      throw_error("{}: tensor {}: has {}, expected 0 or more", path, tensor.name, static_cast<int64_t>(value));
  return values;
}

Output integer_output(const gguf::SafeTensor& tensor, const std::string& path, std::string name) {
  const bool wide = tensor.dtype == gguf::Dtype::I64;
  if (!wide && tensor.dtype != gguf::Dtype::I32) throw_error("{}: tensor {}: expected integers", path, tensor.name);
  const auto write = [&tensor, path, wide](const Sink& sink) {
    std::vector<int32_t> values(tensor.elements());
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      int64_t value = 0;
      if (wide)
        std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
      else
        std::memcpy(&values[i], tensor.data.data() + i * sizeof values[i], sizeof values[i]);
      if (value < INT32_MIN || value > INT32_MAX)
        throw_error("{}: tensor {}: entry {} is {}, beyond 32 bits", path, tensor.name, i, value);
      if (wide) values[i] = static_cast<int32_t>(value);
    }
    sink(std::as_bytes(std::span(values)));
  };
  return {{std::move(name), gguf::PlainType::I32, {tensor.shape.rbegin(), tensor.shape.rend()}}, write, {&tensor}};
}

} // namespace ridge::convert::import
