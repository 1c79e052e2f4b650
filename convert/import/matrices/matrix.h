// A weight matrix in any layout: rows are outputs, columns inputs (transposed on reading). Plain `floats`, or codes
// with scales per column group.
#pragma once

#include "convert/import/config/config.h"
#include "gguf/safetensors.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

// The weight of a code; s: scale of its group.
enum class Scheme : uint8_t {
  plain,
  affine,   // s · (code − zero)
  nf4,      // s · NF4 level
  fp4,      // s · FP4 level (bitsandbytes)
  fp8_e4m3, // s · E4M3
  mxfp4,    // s · E2M1; s a power of two, groups of 32
  nvfp4,    // s · E2M1 · matrix scale; s E4M3, groups of 16
};

struct Matrix {
  Scheme scheme = Scheme::plain;
  int64_t rows = 0, cols = 0;
  gguf::Dtype dtype = gguf::Dtype::F32;
  int bits = 0;
  int64_t group = 0; // columns per scale; divides cols
  float matrix_scale = 1;
  std::vector<int32_t> order; // act-order: input of code column i; empty: i

  std::vector<const gguf::SafeTensor*> parts;

  template <typename T>
  using Reader = std::function<void(int64_t first, int64_t count, T* out)>;
  Reader<float> floats;        // plain: [count][cols]
  Reader<uint8_t> codes;       // [count][cols], one byte each; for fp8_e4m3 the value
  Reader<float> scales;        // [count][groups()]
  Reader<uint8_t> scale_bytes; // replaces scales: E8M0 for mxfp4, E4M3 for nvfp4
  Reader<int16_t> zeros;       // affine: [count][groups()]; empty: 2^(bits - 1)

  int64_t groups() const { return cols / group; }
};

// A module ("model.layers.0.mlp.up_proj") in any known layout.
class MatrixReader {
 public:
  MatrixReader(const gguf::Safetensors& tensors, const Config& config);

  bool has(const std::string& name) const;
  // Throws Error if missing or unknown.
  Matrix read(const std::string& name) const;
  // gpt-oss: blocks [experts, rows, columns / 32, 16] and scales.
  std::vector<Matrix> mxfp4_experts(const gguf::SafeTensor& blocks, const gguf::SafeTensor& scales) const;
  const std::string& method() const { return method_; } // quant_method; empty: not quantized

 private:
  struct Request;
  Request extent(const std::string& name) const;
  Request bitsandbytes_extent(const std::string& name, const gguf::SafeTensor& weight) const;
  const gguf::SafeTensor& bitsandbytes_state(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix awq(const Request& request) const;
  Matrix bitnet(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix gptq(const Request& request) const;
  Matrix compressed_int(const Request& request) const;
  Matrix eight_bit_int(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix bitsandbytes(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix fp8(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix mxfp4(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix nvfp4(const Request& request, const gguf::SafeTensor& weight) const;

  bool has_block_scales(const Request& request) const;
  const gguf::SafeTensor* find(const Request& request, std::string_view suffix) const;
  const gguf::SafeTensor& get(Matrix& matrix, const Request& request, std::string_view suffix, gguf::Dtype dtype,
                              const std::vector<int64_t>& shape) const;
  // [rows, groups] or, transposed, [groups, rows]; sets the group size.
  void set_scales(Matrix& matrix, const Request& request, std::string_view suffix, bool transposed) const;
  [[noreturn]] void refuse(const gguf::SafeTensor& tensor, const std::string& expected) const;
  void set_order(Matrix& matrix, const gguf::SafeTensor& groups_of_columns) const;

  const gguf::Safetensors& tensors_;
  const Config& config_;
  std::string method_, format_;
  bool zeros_less_one_ = false;
  int64_t bits_ = 0;
  int64_t block_rows_ = 0, block_cols_ = 0;
};

struct MatrixReader::Request {
  std::string name;
  int64_t rows, cols;
};

// Throws Error for types other than F64, F32, F16, BF16.
void read_floats(const gguf::SafeTensor& tensor, int64_t first, int64_t count, float* out);

} // namespace ridge::convert::import
