// A weight matrix of a checkpoint: what it holds, apart from how its file lays it out. Rows are outputs, columns
// inputs, as the matrix is applied; layouts that store it the other way round are turned on reading.
//
// A matrix is either plain numbers (`floats`), or packed: small codes with scales for groups of columns.
#pragma once

#include "convert/import/config.h"
#include "gguf/safetensors.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

// What the codes of a packed matrix mean; s is the scale of the weight's group.
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
  std::vector<int32_t> order;           // act-order: column i of the codes is input order[i]; empty: as they are

  std::vector<const gguf::SafeTensor*> parts; // all it is made of

  // Each reads `count` rows from `first` on into consecutive rows of the given memory.
  template <typename T>
  using Reader = std::function<void(int64_t first, int64_t count, T* out)>;
  Reader<float> floats;        // plain: [count][cols]
  Reader<uint8_t> codes;       // [count][cols], one code each; of fp8_e4m3 the byte
  Reader<float> scales;        // [count][groups()]
  Reader<uint8_t> scale_bytes; // in place of scales. mxfp4: E8M0, nvfp4: E4M3
  Reader<int16_t> zeros;       // affine: [count][groups()]; empty: each is 2^(bits - 1)

  int64_t groups() const { return cols / group; }
};

// The matrix that the module `name` ("model.layers.0.mlp.up_proj") has, whatever it is packed in. Throws Error where it
// is not there, not [rows, cols], or packed in a way that is not known.
class MatrixReader {
 public:
  MatrixReader(const gguf::Safetensors& tensors, const Config& config);

  Matrix read(const std::string& name, int64_t rows, int64_t cols) const;
  const std::string& method() const { return method_; } // quant_method; empty: not quantized

 private:
  struct Request;
  Matrix plain(const Request& request, const gguf::SafeTensor& weight) const;
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
  // Scales of shape [rows, groups]; sets group from it. Where they are transposed: [groups, rows].
  void set_scales(Matrix& matrix, const Request& request, std::string_view suffix, bool transposed) const;
  [[noreturn]] void refuse(const gguf::SafeTensor& tensor, const std::string& expected) const;
  void set_order(Matrix& matrix, const gguf::SafeTensor& groups_of_columns) const;

  const gguf::Safetensors& tensors_;
  const Config& config_;
  std::string method_, format_;
  bool zeros_less_one_ = false;             // GPTQ, first format
  int64_t block_rows_ = 0, block_cols_ = 0; // FP8 in blocks
};

struct MatrixReader::Request {
  std::string name;
  int64_t rows, cols;
};

// `count` numbers of a tensor from number `first` on, as f32. Throws Error for other types than F64, F32, F16, BF16.
void read_floats(const gguf::SafeTensor& tensor, int64_t first, int64_t count, float* out);

} // namespace ridge::convert::import
