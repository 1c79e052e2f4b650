// A weight matrix of a checkpoint, independent of the layout of its file. Rows are outputs and columns are inputs;
// layouts that store the transposed matrix are transposed on reading.
//
// A matrix has either plain numbers (`floats`), or packed ones: small codes, with scales for groups of columns.
#pragma once

#include "convert/import/config.h"
#include "gguf/safetensors.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

// The weight that a code of a packed matrix stands for; s is the scale of its group.
enum class Scheme : uint8_t {
  plain,    // numbers
  affine,   // s · (code − zero)
  nf4,      // s · NF4 level
  fp4,      // s · FP4 level (bitsandbytes')
  fp8_e4m3, // s · E4M3 value
  mxfp4,    // s · E2M1 value, s a power of two, groups of 32
  nvfp4,    // s · E2M1 value · the matrix's own scale, s an E4M3 value, groups of 16
};

struct Matrix {
  Scheme scheme = Scheme::plain;
  int64_t rows = 0, cols = 0;
  gguf::Dtype dtype = gguf::Dtype::F32; // of plain numbers: F64, F32, F16 or BF16
  int bits = 0;                         // of an affine code
  int64_t group = 0;                    // columns that share a scale; divides cols
  float matrix_scale = 1;               // of nvfp4
  std::vector<int32_t> order;           // act-order: column i of the codes is input order[i]; empty: input i

  std::vector<const gguf::SafeTensor*> parts; // tensors that it consists of

  // Each reads rows [first, first + count) into consecutive rows of `out`.
  template <typename T>
  using Reader = std::function<void(int64_t first, int64_t count, T* out)>;
  Reader<float> floats;        // plain: [count][cols]
  Reader<uint8_t> codes;       // [count][cols], a code per byte; for fp8_e4m3 it is the value
  Reader<float> scales;        // [count][groups()]
  Reader<uint8_t> scale_bytes; // in place of scales. mxfp4: E8M0, nvfp4: E4M3
  Reader<int16_t> zeros;       // affine: [count][groups()]; empty: each is 2^(bits - 1)

  int64_t groups() const { return cols / group; }
};

// Reads the matrix of the module `name` ("model.layers.0.mlp.up_proj"), in any layout that is known.
class MatrixReader {
 public:
  MatrixReader(const gguf::Safetensors& tensors, const Config& config);

  bool has(const std::string& name) const;
  // Throws Error if it is missing, no matrix, or of an unknown layout.
  Matrix read(const std::string& name) const;
  // Matrices of MXFP4 in one tensor of blocks [experts, rows, columns / 32, 16] and one of scales, as gpt-oss has them.
  std::vector<Matrix> mxfp4_experts(const gguf::SafeTensor& blocks, const gguf::SafeTensor& scales) const;
  const std::string& method() const { return method_; } // quant_method; empty: not quantized

 private:
  struct Request;
  Request extent(const std::string& name) const; // from the shapes of the module's tensors
  Request bitsandbytes_extent(const std::string& name, const gguf::SafeTensor& weight) const;
  const gguf::SafeTensor& bitsandbytes_state(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix awq(const Request& request) const;
  Matrix gptq(const Request& request) const;
  Matrix compressed_int(const Request& request) const;
  Matrix eight_bit_int(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix bitsandbytes(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix fp8(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix mxfp4(const Request& request, const gguf::SafeTensor& weight) const;
  Matrix nvfp4(const Request& request, const gguf::SafeTensor& weight) const;

  const gguf::SafeTensor* find(const Request& request, std::string_view suffix) const; // NAME + suffix
  const gguf::SafeTensor& get(Matrix& matrix, const Request& request, std::string_view suffix, gguf::Dtype dtype,
                              const std::vector<int64_t>& shape) const;
  // Sets the scales, of shape [rows, groups] or, if transposed, [groups, rows], and the group's size.
  void set_scales(Matrix& matrix, const Request& request, std::string_view suffix, bool transposed) const;
  [[noreturn]] void refuse(const gguf::SafeTensor& tensor, const std::string& expected) const;
  void set_order(Matrix& matrix, const gguf::SafeTensor& groups_of_columns) const;

  const gguf::Safetensors& tensors_;
  const Config& config_;
  std::string method_, format_;
  bool zeros_less_one_ = false;             // GPTQ, first format
  int64_t bits_ = 0;                        // of codes, where quantization_config says so
  int64_t block_rows_ = 0, block_cols_ = 0; // FP8 in blocks
};

struct MatrixReader::Request {
  std::string name;
  int64_t rows, cols;
};

// Numbers [first, first + count) of a tensor as f32. Throws Error for other types than F64, F32, F16 and BF16.
void read_floats(const gguf::SafeTensor& tensor, int64_t first, int64_t count, float* out);

} // namespace ridge::convert::import
