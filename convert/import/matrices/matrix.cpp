#include "convert/import/matrices/matrix.h"

#include "convert/import/matrices/views.h"
#include "core/error.h"
#include "core/half.h"
#include "core/strings/printable.h"

#include <fmt/ranges.h>

#include <array>
#include <cstring>

namespace ridge::convert::import {

using gguf::Dtype;
using gguf::SafeTensor;

void read_floats(const SafeTensor& tensor, int64_t first, int64_t count, float* out) {
  const auto each = [&](auto stored, auto convert) { // file data may be unaligned
    const std::byte* from = tensor.data.data() + first * static_cast<int64_t>(sizeof stored);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&stored, from + i * static_cast<int64_t>(sizeof stored), sizeof stored);
      out[i] = convert(stored);
    }
  };
  switch (tensor.dtype) {
  case Dtype::F32: each(float{}, [](float x) { return x; }); break;
  case Dtype::F64: each(double{}, [](double x) { return static_cast<float>(x); }); break;
  case Dtype::F16: each(uint16_t{}, [](uint16_t x) { return core::f32_from_f16(x); }); break;
  case Dtype::BF16: each(uint16_t{}, [](uint16_t x) { return core::f32_from_bf16(x); }); break;
  default: throw_error("tensor {}: has type {}, expected numbers", tensor.name, gguf::name_of(tensor.dtype));
  }
}

MatrixReader::MatrixReader(const gguf::Safetensors& tensors, const Config& config)
    : tensors_(tensors), config_(config) {
  if (config.quantization.is_null()) return;
  const Fields quantization(config.quantization, "config.json: quantization_config");
  method_ = quantization.find_string("quant_method").value_or(quantization.find("quant_algo") ? "modelopt" : "");
  format_ = quantization.find_string("format").value_or("");
  bits_ = quantization.get_int("bits", 1, 16, 0);
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
             method_ != "fbgemm_fp8" && method_ != "mxfp4" && method_ != "bitnet") {
    throw_error("{}: {} is not known; known are awq, gptq, bitnet, bitsandbytes, fp8, fbgemm_fp8, mxfp4, "
                "compressed-tensors and modelopt",
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

bool MatrixReader::has(const std::string& name) const {
  for (const char* suffix : {".weight", ".qweight", ".weight_packed"})
    if (tensors_.find(name + suffix)) return true;
  return false;
}

MatrixReader::Request MatrixReader::extent(const std::string& name) const {
  const auto shape_of = [&](const char* suffix) -> const SafeTensor* {
    const SafeTensor* tensor = tensors_.find(name + suffix);
    if (tensor && tensor->shape.size() != 2 && tensor->dtype != Dtype::U8)
      throw_error("{}: tensor {} has shape [{}], expected a matrix", tensors_.path_of(*tensor), tensor->name,
                  fmt::join(tensor->shape, ", "));
    return tensor;
  };
  if (const SafeTensor* codes = shape_of(".qweight")) {
    if (method_ != "awq" && method_ != "gptq")
      throw_error("tensor {}.qweight: config.json does not say whether it is AWQ's or GPTQ's (quantization_config)",
                  name);
    const SafeTensor* groups = tensors_.find(name + ".g_idx");
    if (method_ == "awq") return {name, codes->shape[1] * 8, codes->shape[0]};
    const int64_t cols = groups && groups->shape.size() == 1 ? groups->shape[0]
                         : bits_ > 0                         ? codes->shape[0] * 32 / bits_
                                                             : 0;
    if (cols == 0) throw_error("tensor {}.g_idx is missing: the checkpoint is incomplete", name);
    return {name, codes->shape[1], cols};
  }
  if (const SafeTensor* packed = shape_of(".weight_packed")) {
    if (packed->shape.size() != 2) refuse(*packed, "a matrix");
    if (packed->dtype != Dtype::I32) return {name, packed->shape[0], packed->shape[1] * 2};
    const SafeTensor* whole = tensors_.find(name + ".weight_shape");
    std::array<int64_t, 2> shape = {};
    if (whole && whole->dtype == Dtype::I64 && whole->elements() == 2) {
      std::memcpy(shape.data(), whole->data.data(), sizeof shape);
    } else if (whole && whole->dtype == Dtype::I32 && whole->elements() == 2) {
      std::array<int32_t, 2> narrow;
      std::memcpy(narrow.data(), whole->data.data(), sizeof narrow);
      shape = {narrow[0], narrow[1]};
    } else {
      throw_error("tensor {}.weight_shape is missing or does not hold two integers: the checkpoint is incomplete",
                  name);
    }
    if (shape[0] != packed->shape[0] || shape[1] < 1 || shape[1] > packed->shape[1] * 32)
      throw_error("{}: tensor {} says [{}, {}], which its codes do not have", tensors_.path_of(*whole), whole->name,
                  shape[0], shape[1]);
    return {name, shape[0], shape[1]};
  }
  const SafeTensor* weight = shape_of(".weight");
  if (!weight)
    throw_error("tensor {}.weight is missing: the checkpoint is incomplete or config.json is another's", name);
  if (weight->dtype == Dtype::I8 && has_block_scales({name, 0, 0}))
    return {name, weight->shape[0], weight->shape[1] * 2};
  if (weight->dtype != Dtype::U8) return {name, weight->shape[0], weight->shape[1]};
  if (method_ == "bitnet" && weight->shape.size() == 2) return {name, weight->shape[0] * 4, weight->shape[1]};
  if (find({name, 0, 0}, ".weight_scale_2") && weight->shape.size() == 2)
    return {name, weight->shape[0], weight->shape[1] * 2};
  return bitsandbytes_extent(name, *weight);
}

// DeepSeek V4: E2M1 in pairs, with powers of two.
bool MatrixReader::has_block_scales(const Request& request) const {
  const SafeTensor* scales = find(request, ".scale");
  return scales && scales->dtype == Dtype::F8_E8M0;
}

Matrix MatrixReader::read(const std::string& name) const {
  const Request request = extent(name);
  if (request.rows < 1 || request.cols < 1) throw_error("tensor {}: has no numbers", name);
  if (find(request, ".qweight")) {
    if (method_ == "awq") return awq(request);
    return gptq(request);
  }
  if (const SafeTensor* packed = find(request, ".weight_packed")) {
    if (packed->dtype == Dtype::I32) return compressed_int(request);
    return find(request, ".weight_global_scale") ? nvfp4(request, *packed) : mxfp4(request, *packed);
  }
  const SafeTensor& weight = *find(request, ".weight");
  switch (weight.dtype) {
  case Dtype::F8_E4M3: return fp8(request, weight);
  case Dtype::I8: return has_block_scales(request) ? mxfp4(request, weight) : eight_bit_int(request, weight);
  case Dtype::U8:
    if (method_ == "bitnet") return bitnet(request, weight);
    return find(request, ".weight_scale_2") ? nvfp4(request, weight) : bitsandbytes(request, weight);
  default: return plain_matrix(weight, 0, request.rows, request.cols);
  }
}

void MatrixReader::set_scales(Matrix& matrix, const Request& request, std::string_view suffix, bool transposed) const {
  const SafeTensor* found = find(request, suffix);
  if (!found) throw_error("tensor {}{} is missing: the checkpoint is incomplete", request.name, suffix);
  const SafeTensor& tensor = *found;
  const bool one_each = tensor.shape == std::vector<int64_t>{request.rows};
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
