// weight = scale · (code − zero): AWQ, GPTQ, compressed-tensors pack-quantized and int-quantized, LLM.int8.
//
// GPTQ (AutoGPTQ, GPTQModel) stores [columns, rows]: codes of 32 consecutive columns are a bit stream through words,
// lowest bits first; zeros likewise along rows, less one in the first format. `g_idx`: group per column, scattered by
// act-order.
//
// AWQ gemm stores [columns, rows], eight rows per word, nibbles in the kernels' order 0 2 4 6 1 3 5 7.
#include "convert/import/matrices/matrix.h"
#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

namespace ridge::convert::import {

using gguf::Dtype;
using gguf::SafeTensor;

namespace {

constexpr std::array<int, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7}; // nibble of row r % 8

uint32_t word(const SafeTensor& tensor, int64_t i) {
  uint32_t value;
  std::memcpy(&value, tensor.data.data() + 4 * i, 4);
  return value;
}

template <typename WordAt>
uint8_t number_at(int64_t i, int bits, WordAt&& word_at) {
  const int64_t at = i * bits / 32;
  const int shift = static_cast<int>(i * bits % 32);
  uint64_t pair = word_at(at);
  if (shift + bits > 32) pair |= static_cast<uint64_t>(word_at(at + 1)) << 32;
  return static_cast<uint8_t>(pair >> shift & ((1u << bits) - 1));
}

} // namespace

void MatrixReader::set_order(Matrix& matrix, const SafeTensor& group_of_column) const {
  if (group_of_column.dtype != Dtype::I32 || group_of_column.shape != std::vector<int64_t>{matrix.cols})
    refuse(group_of_column, fmt::format("I32 [{}]", matrix.cols));
  matrix.parts.push_back(&group_of_column);
  std::vector<int32_t> group(matrix.cols);
  for (int64_t i = 0; i < matrix.cols; ++i) group[i] = static_cast<int32_t>(word(group_of_column, i));
  const bool none = std::ranges::all_of(group, [](int32_t g) { return g == -1; });
  bool in_order = true;
  for (int64_t i = 0; i < matrix.cols; ++i) in_order &= group[i] == i / matrix.group;
  if (none || in_order) return;
  matrix.order.resize(matrix.cols);
  std::iota(matrix.order.begin(), matrix.order.end(), 0);
  std::ranges::stable_sort(matrix.order, {}, [&](int32_t column) { return group[column]; });
  for (int64_t i = 0; i < matrix.cols; ++i)
    if (group[matrix.order[i]] != i / matrix.group)
      throw_error("{}: tensor {}: group {} has not the {} columns of the others", tensors_.path_of(group_of_column),
                  group_of_column.name, i / matrix.group, matrix.group);
  matrix.codes = [codes = std::move(matrix.codes), order = matrix.order](int64_t first, int64_t count, uint8_t* out) {
    codes(first, count, out);
    const auto cols = std::ssize(order);
    std::vector<uint8_t> row(cols);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(out + r * cols, cols, row.data());
      for (int64_t i = 0; i < cols; ++i) out[r * cols + i] = row[order[i]];
    }
  };
}

Matrix MatrixReader::gptq(const Request& request) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::affine, .rows = rows, .cols = cols};
  const SafeTensor& any = *find(request, ".qweight");
  // Words per column give the bits, by module.
  const int64_t bits = any.shape.size() == 2 ? any.shape[0] * 32 / cols : 0;
  if (cols % 32 != 0 || rows % 32 != 0 || (bits != 2 && bits != 3 && bits != 4 && bits != 8))
    refuse(any, fmt::format("I32 [{} * bits / 32, {}] of 2, 3, 4 or 8 bits, both in multiples of 32", cols, rows));
  matrix.bits = static_cast<int>(bits);
  const SafeTensor& codes = get(matrix, request, ".qweight", Dtype::I32, {cols * bits / 32, rows});
  set_scales(matrix, request, ".scales", true);
  const SafeTensor& zeros = get(matrix, request, ".qzeros", Dtype::I32, {matrix.groups(), rows * bits / 32});

  matrix.codes = [&codes, rows, cols, bits = matrix.bits](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t c = 0; c < cols; c += 32)
      for (int64_t r = 0; r < count; ++r) {
        uint32_t words[9] = {};
        for (int w = 0; w < bits; ++w) words[w] = word(codes, (c * bits / 32 + w) * rows + first + r);
        for (int i = 0; i < 32; ++i) out[r * cols + c + i] = number_at(i, bits, [&](int64_t at) { return words[at]; });
      }
  };
  matrix.zeros = [&zeros, rows, groups = matrix.groups(), bits = matrix.bits,
                  add = zeros_less_one_ ? 1 : 0](int64_t first, int64_t count, int16_t* out) {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < count; ++r) {
        const int stored =
            number_at(first + r, bits, [&](int64_t at) { return word(zeros, g * (rows * bits / 32) + at); });
        out[r * groups + g] = static_cast<int16_t>((stored + add) & ((1 << bits) - 1));
      }
  };
  if (const SafeTensor* groups = find(request, ".g_idx")) set_order(matrix, *groups);
  return matrix;
}

Matrix MatrixReader::awq(const Request& request) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::affine, .rows = rows, .cols = cols};
  matrix.bits = 4;
  if (rows % 8 != 0) refuse(*find(request, ".qweight"), "rows in multiples of 8");
  const SafeTensor& codes = get(matrix, request, ".qweight", Dtype::I32, {cols, rows / 8});
  set_scales(matrix, request, ".scales", true);
  const SafeTensor& zeros = get(matrix, request, ".qzeros", Dtype::I32, {matrix.groups(), rows / 8});
  // One nibble to output (r, h), for all h.
  const auto unpack = [rows](const SafeTensor& from, int64_t height, int64_t first, int64_t count, auto* out) {
    for (int64_t h = 0; h < height; ++h)
      for (int64_t r = 0; r < count; ++r) {
        const int64_t row = first + r;
        out[r * height + h] = word(from, h * (rows / 8) + row / 8) >> (4 * kAwqNibble[row % 8]) & 15;
      }
  };
  matrix.codes = [&codes, unpack, cols](int64_t first, int64_t count, uint8_t* out) {
    unpack(codes, cols, first, count, out);
  };
  matrix.zeros = [&zeros, unpack, groups = matrix.groups()](int64_t first, int64_t count, int16_t* out) {
    unpack(zeros, groups, first, count, out);
  };
  return matrix;
}

Matrix MatrixReader::compressed_int(const Request& request) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::affine, .rows = rows, .cols = cols};
  const SafeTensor& any = *find(request, ".weight_packed");
  const int64_t bits = any.shape.size() == 2 && any.shape[1] > 0 ? 32 * any.shape[1] / cols : 0;
  if (bits != 4 && bits != 8) refuse(any, fmt::format("I32 [{}, {} * bits / 32] of 4 or 8 bits", rows, cols));
  matrix.bits = static_cast<int>(bits);
  const int64_t words = cols * bits / 32, in_word = 32 / bits;
  const SafeTensor& codes = get(matrix, request, ".weight_packed", Dtype::I32, {rows, words});
  if (const SafeTensor* shape = find(request, ".weight_shape")) matrix.parts.push_back(shape);
  set_scales(matrix, request, ".weight_scale", false);
  matrix.codes = [&codes, words, cols, bits = matrix.bits](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < cols; ++c)
        out[r * cols + c] = number_at(c, bits, [&](int64_t at) { return word(codes, (first + r) * words + at); });
  };
  if (find(request, ".weight_zero_point")) {
    const int64_t groups = matrix.groups();
    const SafeTensor& zeros =
        get(matrix, request, ".weight_zero_point", Dtype::I32, {(rows + in_word - 1) / in_word, groups});
    matrix.zeros = [&zeros, groups, in_word, bits = matrix.bits](int64_t first, int64_t count, int16_t* out) {
      for (int64_t r = 0; r < count; ++r)
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t row = first + r;
          out[r * groups + g] = static_cast<int16_t>(word(zeros, row / in_word * groups + g) >> (row % in_word * bits) &
                                                     ((1u << bits) - 1));
        }
    };
  }
  if (const SafeTensor* groups = find(request, ".weight_g_idx")) set_order(matrix, *groups);
  return matrix;
}

Matrix MatrixReader::eight_bit_int(const Request& request, const SafeTensor& weight) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::affine, .rows = rows, .cols = cols};
  matrix.bits = 8;
  get(matrix, request, ".weight", Dtype::I8, {rows, cols});
  if (find(request, ".SCB")) { // LLM.int8: row maximum, code 127
    const SafeTensor& largest = get(matrix, request, ".SCB", Dtype::F32, {rows});
    matrix.group = cols;
    matrix.scales = [&largest](int64_t first, int64_t count, float* out) {
      read_floats(largest, first, count, out);
      for (int64_t r = 0; r < count; ++r) out[r] /= 127.0f;
    };
  } else {
    set_scales(matrix, request, ".weight_scale", false);
  }
  if (const SafeTensor* zeros = find(request, ".weight_zero_point")) {
    const int64_t groups = matrix.groups();
    if (zeros->dtype != Dtype::I8 || zeros->elements() != rows * groups)
      refuse(*zeros, fmt::format("I8 [{}, {}]", rows, groups));
    matrix.parts.push_back(zeros);
    matrix.zeros = [zeros, groups](int64_t first, int64_t count, int16_t* out) {
      for (int64_t i = 0; i < count * groups; ++i)
        out[i] = static_cast<int16_t>(static_cast<int8_t>(zeros->data[first * groups + i]) + 128);
    };
  }
  matrix.codes = [&weight, cols](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t i = 0; i < count * cols; ++i)
      out[i] = static_cast<uint8_t>(static_cast<int8_t>(weight.data[first * cols + i]) + 128);
  };
  return matrix;
}

// Two bits hold a number plus 1; byte row r has those of rows r, r + rows / 4 and so on, from the lowest bits.
Matrix MatrixReader::bitnet(const Request& request, const SafeTensor& weight) const {
  const int64_t rows = request.rows, cols = request.cols, quarter = rows / 4;
  Matrix matrix{.scheme = Scheme::affine, .rows = rows, .cols = cols, .bits = 2, .group = cols};
  if (cols % 32 != 0) refuse(weight, "columns in multiples of 32");
  matrix.parts = {&weight};
  const SafeTensor* scale = find(request, ".weight_scale");
  if (!scale || scale->elements() != 1)
    throw_error("tensor {}.weight_scale is missing or not one number: the checkpoint is incomplete", request.name);
  matrix.parts.push_back(scale);
  float factor = 0;
  read_floats(*scale, 0, 1, &factor);
  // BitLinear divides by it, AutoBitLinear multiplies.
  if (config_.quantization.value("linear_class", Json()) != "autobitlinear") factor = 1 / factor;
  if (!std::isfinite(factor)) throw_error("tensor {}: the scale is not finite", scale->name);
  matrix.scales = [factor](int64_t, int64_t count, float* out) { std::fill_n(out, count, factor); };
  matrix.zeros = [](int64_t, int64_t count, int16_t* out) { std::fill_n(out, count, int16_t{1}); };
  matrix.codes = [&weight, cols, quarter](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t r = first; r < first + count; ++r)
      for (int64_t i = 0; i < cols; ++i) {
        const auto codes = static_cast<uint8_t>(weight.data[r % quarter * cols + i]);
        *out = codes >> (2 * (r / quarter)) & 3;
        if (*out++ == 3)
          throw_error("tensor {}: row {}, column {}: 2 is no number of a ternary matrix", weight.name, r, i);
      }
  };
  return matrix;
}

} // namespace ridge::convert::import
