#include "convert/import/matrix.h"

#include "core/error.h"
#include "core/half.h"
#include "core/strings/printable.h"

#include <fmt/ranges.h>

#include <cstring>

namespace ridge::convert::import {

using gguf::Dtype;
using gguf::SafeTensor;

void read_floats(const SafeTensor& tensor, int64_t first, int64_t count, float* out) {
  const auto each = [&](auto stored, auto convert) { // data in files may be unaligned
    const std::byte* from = tensor.data.data() + first * static_cast<int64_t>(sizeof stored);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&stored, from + i * static_cast<int64_t>(sizeof stored), sizeof stored);
      out[i] = convert(stored);
    }
  };
  switch (tensor.dtype) {
  case Dtype::F32: each(float{}, [](float x) { return x; }); break;
  case Dtype::F64: each(double{}, [](double x) { return static_cast<float>(x); }); break;
  case Dtype::F16: each(uint16_t{}, core::f32_from_f16); break;
  case Dtype::BF16: each(uint16_t{}, core::f32_from_bf16); break;
  default: throw_error("tensor {}: has type {}, expected numbers", tensor.name, gguf::name_of(tensor.dtype));
  }
}

MatrixReader::MatrixReader(const gguf::Safetensors& tensors, const Config& config)
    : tensors_(tensors), config_(config) {
  if (config.quantization.is_null()) return;
  const Fields quantization(config.quantization, "config.json: quantization_config");
  method_ = quantization.find_string("quant_method").value_or(quantization.find("quant_algo") ? "modelopt" : "");
  format_ = quantization.find_string("format").value_or("");
  if (method_ == "awq") {
    const std::string version = quantization.find_string("version").value_or("gemm");
    if (version != "gemm" && version != "GEMM")
      throw_error("{}: is {}; of AWQ's layouts only gemm can be converted", quantization.where("version"),
                  core::printable(version));
  } else if (method_ == "gptq") {
    zeros_less_one_ = quantization.find_string("checkpoint_format").value_or("gptq") == "gptq";
  } else if (method_ == "fp8") {
    if (const Json* block = quantization.find("weight_block_size")) {
      const bool pair = block->is_array() && block->size() == 2 && (*block)[0].is_number_unsigned() &&
                        (*block)[1].is_number_unsigned();
      if (!pair) throw_error("{}: expected [rows, columns]", quantization.where("weight_block_size"));
      block_rows_ = (*block)[0].get<int32_t>();
      block_cols_ = (*block)[1].get<int32_t>();
    }
  } else if (method_ != "bitsandbytes" && method_ != "compressed-tensors" && method_ != "modelopt" &&
             method_ != "fbgemm_fp8") {
    throw_error("{}: {} is not known; known are awq, gptq, bitsandbytes, fp8, fbgemm_fp8, compressed-tensors and "
                "modelopt",
                quantization.where("quant_method"), core::printable(method_));
  }
}

const SafeTensor* MatrixReader::find(const Request& request, std::string_view suffix) const {
  return tensors_.find(request.name + std::string(suffix));
}

void MatrixReader::refuse(const SafeTensor& tensor, const std::string& expected) const {
  throw_error("{}: tensor {} is {} [{}], expected {}", tensors_.path_of(tensor), tensor.name,
              gguf::name_of(tensor.dtype), fmt::join(tensor.shape, ", "), expected);
}

const SafeTensor& MatrixReader::get(Matrix& matrix, const Request& request, std::string_view suffix, Dtype dtype,
                                    const std::vector<int64_t>& shape) const {
  const SafeTensor* tensor = find(request, suffix);
  if (!tensor) throw_error("tensor {}{} is missing: the checkpoint is incomplete", request.name, suffix);
  if (tensor->dtype != dtype || tensor->shape != shape)
    refuse(*tensor, fmt::format("{} [{}]", gguf::name_of(dtype), fmt::join(shape, ", ")));
  matrix.parts.push_back(tensor);
  return *tensor;
}

Matrix MatrixReader::read(const std::string& name, int64_t rows, int64_t cols) const {
  const Request request{name, rows, cols};
  if (find(request, ".qweight")) {
    if (method_ == "awq") return awq(request);
    if (method_ == "gptq") return gptq(request);
    throw_error("tensor {}.qweight: config.json does not say whether it is AWQ's or GPTQ's (quantization_config)",
                name);
  }
  if (const SafeTensor* packed = find(request, ".weight_packed")) {
    if (packed->dtype == Dtype::I32) return compressed_int(request);
    return find(request, ".weight_global_scale") ? nvfp4(request, *packed) : mxfp4(request, *packed);
  }
  const SafeTensor* weight = find(request, ".weight");
  if (!weight)
    throw_error("tensor {}.weight is missing: the checkpoint is incomplete or config.json is another's", name);
  switch (weight->dtype) {
  case Dtype::F8_E4M3: return fp8(request, *weight);
  case Dtype::I8: return eight_bit_int(request, *weight);
  case Dtype::U8: return find(request, ".weight_scale_2") ? nvfp4(request, *weight) : bitsandbytes(request, *weight);
  default: return plain(request, *weight);
  }
}

Matrix MatrixReader::plain(const Request& request, const SafeTensor& weight) const {
  if (weight.shape != std::vector<int64_t>{request.rows, request.cols})
    throw_error("{}: tensor {} has shape [{}], but config.json makes it [{}, {}]", tensors_.path_of(weight),
                weight.name, fmt::join(weight.shape, ", "), request.rows, request.cols);
  Matrix matrix;
  matrix.rows = request.rows;
  matrix.cols = request.cols;
  matrix.dtype = weight.dtype;
  matrix.parts = {&weight};
  matrix.floats = [&weight, cols = request.cols](int64_t first, int64_t count, float* out) {
    read_floats(weight, first * cols, count * cols, out);
  };
  read_floats(weight, 0, 0, nullptr); // throws for other types
  return matrix;
}

void MatrixReader::set_scales(Matrix& matrix, const Request& request, std::string_view suffix, bool transposed) const {
  const SafeTensor* found = find(request, suffix);
  if (!found) throw_error("tensor {}{} is missing: the checkpoint is incomplete", request.name, suffix);
  const SafeTensor& tensor = *found;
  const bool one_each = tensor.shape == std::vector<int64_t>{request.rows}; // a scale for each row
  const bool fits = one_each || (tensor.shape.size() == 2 && tensor.shape[transposed ? 1 : 0] == request.rows &&
                                 tensor.shape[transposed ? 0 : 1] > 0);
  const int64_t groups = one_each || !fits ? 1 : tensor.shape[transposed ? 0 : 1];
  if (!fits || request.cols % groups != 0 || request.cols / groups % 32 != 0)
    refuse(tensor, fmt::format("a scale for each of {} rows and each group of a multiple of 32 of {} columns",
                               request.rows, request.cols));
  read_floats(tensor, 0, 0, nullptr); // throws for other types
  matrix.parts.push_back(&tensor);
  matrix.group = request.cols / groups;
  if (!transposed) {
    matrix.scales = [&tensor, groups](int64_t first, int64_t count, float* out) {
      read_floats(tensor, first * groups, count * groups, out);
    };
    return;
  }
  matrix.scales = [&tensor, groups, rows = request.rows](int64_t first, int64_t count, float* out) {
    std::vector<float> of_group(count);
    for (int64_t g = 0; g < groups; ++g) {
      read_floats(tensor, g * rows + first, count, of_group.data());
      for (int64_t r = 0; r < count; ++r) out[r * groups + g] = of_group[r];
    }
  };
}

} // namespace ridge::convert::import
