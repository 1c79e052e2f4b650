// bitsandbytes NF4 and FP4, FP8, MXFP4, NVFP4.
#include "convert/import/matrices/matrix.h"
#include "core/error.h"
#include "core/half.h"
#include "core/json/parse.h"
#include "models/file/planar.h"

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

uint8_t byte(const SafeTensor& tensor, int64_t i) { return static_cast<uint8_t>(tensor.data[i]); }

// Low nibble first.
Matrix::Reader<uint8_t> nibbles(const SafeTensor& tensor, int64_t cols) {
  return [&tensor, cols](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t i = 0; i < count * cols / 2; ++i) {
      const uint8_t pair = byte(tensor, first * cols / 2 + i);
      out[2 * i] = pair & 15;
      out[2 * i + 1] = pair >> 4;
    }
  };
}

Matrix::Reader<uint8_t> bytes(const SafeTensor& tensor, int64_t width) {
  return [&tensor, width](int64_t first, int64_t count, uint8_t* out) {
    std::memcpy(out, tensor.data.data() + first * width, static_cast<size_t>(count * width));
  };
}

// Refuses E8M0 code 255 (NaN).
void check_no_nan(const SafeTensor& scales) {
  for (int64_t i = 0; i < scales.elements(); ++i)
    if (byte(scales, i) == 255) throw_error("tensor {}: scale {} is not a number", scales.name, i);
}

float scalar(const SafeTensor& tensor) {
  float value = 0;
  if (tensor.elements() != 1) throw_error("tensor {}: expected a single number", tensor.name);
  read_floats(tensor, 0, 1, &value);
  return value;
}

} // namespace

const SafeTensor& MatrixReader::bitsandbytes_state(const Request& request, const SafeTensor& weight) const {
  for (const char* kind : {"nf4", "fp4"})
    if (const SafeTensor* state = find(request, fmt::format(".weight.quant_state.bitsandbytes__{}", kind)))
      return *state;
  refuse(weight, "a weight, or codes with a .quant_state of bitsandbytes");
}

namespace {

Json state_of(const gguf::Safetensors& tensors, const SafeTensor& state) {
  const std::string text(reinterpret_cast<const char*>(state.data.data()), state.data.size());
  Json document = core::find_json<Json>(text).value_or(nullptr);
  if (!document.is_object()) throw_error("{}: tensor {}: not a JSON object", tensors.path_of(state), state.name);
  return document;
}

} // namespace

MatrixReader::Request MatrixReader::bitsandbytes_extent(const std::string& name, const SafeTensor& weight) const {
  const SafeTensor& state = bitsandbytes_state({name, 0, 0}, weight);
  const Json document = state_of(tensors_, state);
  const Fields fields(document, "tensor " + state.name);
  const Json* shape = fields.find("shape");
  const auto extent = [&](size_t i) {
    const bool known = shape && shape->is_array() && shape->size() == 2 && (*shape)[i].is_number_unsigned();
    const uint64_t value = known ? (*shape)[i].get<uint64_t>() : 0;
    if (value == 0 || value > 1 << 30) throw_error("{}: expected [rows, columns]", fields.where("shape"));
    return static_cast<int64_t>(value);
  };
  return {name, extent(0), extent(1)};
}

// Codes of all rows form one sequence, high nibble first, a scale per `blocksize`. Double quantization: scales index a
// table and have scales per block.
Matrix MatrixReader::bitsandbytes(const Request& request, const SafeTensor& weight) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::nf4, .rows = rows, .cols = cols};
  const SafeTensor& state = bitsandbytes_state(request, weight);
  if (state.name.ends_with("fp4")) matrix.scheme = Scheme::fp4;
  const Json document = state_of(tensors_, state);
  const Fields fields(document, "tensor " + state.name);
  const int64_t block = fields.get_int("blocksize", 32, 1 << 20);
  if (cols % block != 0 || block % 64 != 0)
    throw_error("{}: is {}; expected a multiple of 64 that divides the {} columns", fields.where("blocksize"), block,
                cols);
  const int64_t blocks = rows * cols / block;
  matrix.group = block;
  matrix.parts = {&weight, &state};
  if (weight.elements() != rows * cols / 2) refuse(weight, fmt::format("{} bytes", rows * cols / 2));

  std::array<float, 16> levels;
  const SafeTensor& map = get(matrix, request, ".weight.quant_map", Dtype::F32, {16});
  read_floats(map, 0, 16, levels.data());
  const auto& expected = matrix.scheme == Scheme::nf4 ? quant::kNf4Levels : quant::kFp4Levels;
  for (int i = 0; i < 16; ++i)
    if (!(std::abs(levels[i] - expected[i]) < 1e-6f))
      throw_error("{}: tensor {}: level {} is {}, expected {}", tensors_.path_of(map), map.name, i, levels[i],
                  expected[i]);

  matrix.codes = [&weight, cols](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t i = 0; i < count * cols / 2; ++i) {
      const uint8_t pair = byte(weight, first * cols / 2 + i);
      out[2 * i] = pair >> 4;
      out[2 * i + 1] = pair & 15;
    }
  };
  const int64_t groups = matrix.groups();
  if (!find(request, ".weight.nested_absmax")) {
    const SafeTensor& absmax = get(matrix, request, ".weight.absmax", Dtype::F32, {blocks});
    matrix.scales = [&absmax, groups](int64_t first, int64_t count, float* out) {
      read_floats(absmax, first * groups, count * groups, out);
    };
    return matrix;
  }
  const int64_t nested_block = fields.get_int("nested_blocksize", 1, 1 << 20);
  const auto offset = static_cast<float>(fields.get_number("nested_offset", 0));
  const SafeTensor& absmax = get(matrix, request, ".weight.absmax", Dtype::U8, {blocks});
  const SafeTensor& nested =
      get(matrix, request, ".weight.nested_absmax", Dtype::F32, {(blocks + nested_block - 1) / nested_block});
  const SafeTensor& table = get(matrix, request, ".weight.nested_quant_map", Dtype::F32, {256});
  matrix.scales = [&absmax, &nested, &table, nested_block, offset, groups](int64_t first, int64_t count, float* out) {
    for (int64_t i = 0; i < count * groups; ++i) {
      const int64_t at = first * groups + i;
      float level, scale;
      read_floats(table, byte(absmax, at), 1, &level);
      read_floats(nested, at / nested_block, 1, &scale);
      out[i] = level * scale + offset;
    }
  };
  return matrix;
}

Matrix MatrixReader::fp8(const Request& request, const SafeTensor& weight) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::fp8_e4m3, .rows = rows, .cols = cols};
  get(matrix, request, ".weight", Dtype::F8_E4M3, {rows, cols});
  if (cols % 64 != 0) refuse(weight, "columns in multiples of 64");
  const SafeTensor* found = find(request, ".weight_scale_inv"); // a multiplier, despite its name
  if (!found) found = find(request, ".weight_scale");
  if (!found) found = find(request, ".scale");
  if (!found) throw_error("tensor {}.weight_scale is missing: the checkpoint is incomplete", request.name);
  const SafeTensor& scales = *found;
  matrix.parts.push_back(&scales);
  if (scales.dtype != Dtype::F8_E8M0) read_floats(scales, 0, 0, nullptr);
  const auto scale_at = [&scales](int64_t i) {
    float scale;
    if (scales.dtype == Dtype::F8_E8M0) return std::ldexp(1.0f, byte(scales, i) - 127);
    read_floats(scales, i, 1, &scale);
    return scale;
  };

  int64_t rows_of_scale = rows, cols_of_scale = cols;
  const std::vector<int64_t>& shape = scales.shape;
  if (scales.elements() != 1) {
    const bool by_row = shape == std::vector<int64_t>{rows} || shape == std::vector<int64_t>{rows, 1};
    if (by_row) {
      rows_of_scale = 1;
    } else {
      rows_of_scale = block_rows_ > 0 ? block_rows_ : 128;
      cols_of_scale = block_cols_ > 0 ? block_cols_ : 128;
      const auto parts = [](int64_t all, int64_t size) { return (all + size - 1) / size; };
      if (shape != std::vector<int64_t>{parts(rows, rows_of_scale), parts(cols, cols_of_scale)} ||
          cols_of_scale % 64 != 0)
        refuse(scales, fmt::format("one scale, one for each of {} rows, or one for each block of {} by {}", rows,
                                   rows_of_scale, cols_of_scale));
    }
  }
  // gcd: the last block may be narrower.
  matrix.group = std::gcd(cols_of_scale, cols);
  const int64_t in_row = (cols + cols_of_scale - 1) / cols_of_scale, groups = matrix.groups(), group = matrix.group;
  matrix.scales = [=](int64_t first, int64_t count, float* out) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t g = 0; g < groups; ++g)
        out[r * groups + g] = scale_at((first + r) / rows_of_scale * in_row + g * group / cols_of_scale);
  };
  matrix.codes = [&weight, cols](int64_t first, int64_t count, uint8_t* out) {
    std::memcpy(out, weight.data.data() + first * cols, static_cast<size_t>(count * cols));
    for (int64_t i = 0; i < count * cols; ++i)
      if ((out[i] & 0x7f) == 0x7f)
        throw_error("tensor {}: row {}, column {}: not a number", weight.name, first + i / cols, i % cols);
  };
  return matrix;
}

Matrix MatrixReader::mxfp4(const Request& request, const SafeTensor& packed) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::mxfp4, .rows = rows, .cols = cols, .group = 32};
  const bool blocks = packed.dtype == Dtype::I8;
  if (cols % 32 != 0 || (!blocks && packed.dtype != Dtype::U8)) refuse(packed, "U8, columns in multiples of 32");
  get(matrix, request, blocks ? ".weight" : ".weight_packed", packed.dtype, {rows, cols / 2});
  const SafeTensor& scales =
      get(matrix, request, blocks ? ".scale" : ".weight_scale", blocks ? Dtype::F8_E8M0 : Dtype::U8, {rows, cols / 32});
  check_no_nan(scales);
  matrix.codes = nibbles(packed, cols);
  matrix.scale_bytes = bytes(scales, cols / 32);
  return matrix;
}

std::vector<Matrix> MatrixReader::mxfp4_experts(const SafeTensor& blocks, const SafeTensor& scales) const {
  const auto& shape = blocks.shape;
  if (blocks.dtype != Dtype::U8 || shape.size() != 4 || shape[3] != 16)
    refuse(blocks, "U8 [experts, rows, groups, 16]");
  if (scales.dtype != Dtype::U8 || scales.shape != std::vector<int64_t>{shape[0], shape[1], shape[2]})
    refuse(scales, fmt::format("U8 [{}, {}, {}]", shape[0], shape[1], shape[2]));
  check_no_nan(scales);
  const int64_t rows = shape[1], cols = 32 * shape[2];
  std::vector<Matrix> experts;
  for (int64_t e = 0; e < shape[0]; ++e) {
    Matrix matrix{.scheme = Scheme::mxfp4, .rows = rows, .cols = cols, .group = 32, .parts = {&blocks, &scales}};
    matrix.codes = [read = nibbles(blocks, cols), e, rows](int64_t first, int64_t count, uint8_t* out) {
      read(e * rows + first, count, out);
    };
    matrix.scale_bytes = [read = bytes(scales, cols / 32), e, rows](int64_t first, int64_t count, uint8_t* out) {
      read(e * rows + first, count, out);
    };
    experts.push_back(std::move(matrix));
  }
  return experts;
}

// ModelOpt: weight, weight_scale_2 (factor); compressed-tensors: weight_packed, weight_global_scale (divisor).
Matrix MatrixReader::nvfp4(const Request& request, const SafeTensor& packed) const {
  const int64_t rows = request.rows, cols = request.cols;
  Matrix matrix{.scheme = Scheme::nvfp4, .rows = rows, .cols = cols, .group = 16};
  if (cols % 64 != 0 || packed.dtype != Dtype::U8 || packed.shape != std::vector<int64_t>{rows, cols / 2})
    refuse(packed, fmt::format("U8 [{}, {}], columns in multiples of 64", rows, cols / 2));
  matrix.parts = {&packed};
  const SafeTensor& scales = get(matrix, request, ".weight_scale", Dtype::F8_E4M3, {rows, cols / 16});
  for (int64_t i = 0; i < scales.elements(); ++i)
    if (byte(scales, i) > 0x7e)
      throw_error("{}: tensor {}: scale {} is negative or not a number", tensors_.path_of(scales), scales.name, i);
  const SafeTensor* factor = find(request, ".weight_scale_2");
  const SafeTensor* divisor = find(request, ".weight_global_scale");
  matrix.parts.push_back(factor ? factor : divisor);
  matrix.matrix_scale = factor ? scalar(*factor) : 1 / scalar(*divisor);
  if (!std::isfinite(matrix.matrix_scale))
    throw_error("tensor {}: the matrix's scale is not finite", matrix.parts.back()->name);
  matrix.codes = nibbles(packed, cols);
  matrix.scale_bytes = bytes(scales, cols / 16);
  return matrix;
}

} // namespace ridge::convert::import
