// A weight matrix of a checkpoint: what it holds, apart from how its file lays it out. Rows are outputs, columns
// inputs, as the matrix is applied; layouts that store it the other way round are turned on reading.
//
// A matrix is either plain numbers (`floats`), or packed: small codes with scales for groups of columns.
#pragma once

#include "gguf/safetensors.h"
#include "models/import/config.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::models::import {

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
  int bits = 0;                         // of a code
  int64_t group = 0;                    // columns that share a scale; groups start at multiples of it
  bool has_zeros = false;               // else the zero is 2^(bits - 1)
  float matrix_scale = 1;               // of nvfp4
  std::vector<int32_t> order;           // act-order: column i of the codes is input order[i]; empty: as they are
  std::string source;                   // "awq", "gptq", …: for the file's metadata

  std::vector<const gguf::SafeTensor*> parts; // all it reads

  // Each reads `count` rows from `first` into consecutive rows of the given memory.
  using Reader = std::function<void(int64_t first, int64_t count, float* out)>;
  using ByteReader = std::function<void(int64_t first, int64_t count, uint8_t* out)>;
  Reader floats;          // plain: [count][cols]
  ByteReader codes;       // [count][cols], one code each; E4M3: the byte
  Reader scales;          // [count][groups()]
  ByteReader scale_bytes; // mxfp4: E8M0; nvfp4: E4M3: [count][groups()]
  ByteReader zeros;       // [count][groups()], where has_zeros

  int64_t groups() const { return (cols + group - 1) / group; }
};

// The matrix that the module `name` ("model.layers.0.mlp.up_proj") has. `config` says how packed ones are packed.
// Throws Error where it is not there, not [rows, cols], or packed in a way that is not known.
class MatrixReader {
 public:
  MatrixReader(const gguf::Safetensors& tensors, const Config& config) : tensors_(tensors), config_(config) {}

  Matrix read(const std::string& name, int64_t rows, int64_t cols) const;

 private:
  const gguf::Safetensors& tensors_;
  const Config& config_;
};

// `count` numbers of a tensor from number `first` on, as f32. Throws Error for other types than F64, F32, F16, BF16.
void read_floats(const gguf::SafeTensor& tensor, int64_t first, int64_t count, float* out);

} // namespace ridge::models::import
