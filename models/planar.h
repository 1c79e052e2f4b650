// Weights of checkpoints that were quantized in a scheme that GGUF has no type for. A file holds each such matrix W
// ("blk.0.attn_q.weight") without loss, as several ordinary tensors that every GGUF reader can list:
//
//   W.qdata    I8   [cols * bits / 8, rows]   codes; a row is a little-endian stream of `bits` bits each
//   W.scales   F32, F16 or BF16 [groups, rows]   a group is cols / groups consecutive columns
//   W.absmax   F32 [groups, rows]             nf4, fp4: in place of W.scales
//   W.zeros    I8   [groups, rows]            affine; without it every zero is 2^(bits - 1)
//   W.perm     I32  [cols]                    act-order: column i of the codes multiplies input perm[i]
//
// Those of experts have a third dimension, except perm. `ridge.quant.scheme` says what a code q means; s is the scale
// of its group:
//
//   affine2, affine3, affine4, affine8   s * (q - zero); the number is `bits`; zeros of 8-bit codes are stored less 128
//   nf4, fp4                             s * level[q] of bitsandbytes, bits 4
//   fp8_e4m3                             s * E4M3, bits 8
//
// A matrix of GGUF's type NVFP4 belongs here, too, if the file has a tensor NAME.scale beside it (F32, one number per
// matrix) that multiplies it. Executors run all of these in the in-memory formats at the end of quant/formats.def.
// Those are a second copy of the weights in memory, beside the mapped file.
#pragma once

#include "gguf/gguf.h"
#include "quant/level_tables.h"
#include "quant/registry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

using quant::kFp4Levels;
using quant::kNf4Levels;

// 2 * half codes of 4 bits: the first `half` in the low nibbles, the others in the high ones.
inline void store_nibbles(const uint8_t* codes, int half, uint8_t* out) {
  for (int i = 0; i < half; ++i) out[i] = static_cast<uint8_t>(codes[i] | codes[i + half] << 4);
}

class PlanarWeight {
 public:
  // The matrix W of the file; nothing if it has no such matrix. Throws Error if its parts do not fit together.
  static std::optional<PlanarWeight> find(const gguf::File& file, const std::string& name);
  // The names W of all such matrices in file order, without those of NVFP4.
  static std::vector<std::string> names(const gguf::File& file);

  const std::string& name() const { return name_; }
  int64_t cols() const { return cols_; }
  int64_t rows() const { return rows_; }     // of one matrix
  int64_t count() const { return count_; }   // matrices (experts; else 1)
  std::string scheme() const;                // "affine4", …
  quant::Type type() const { return type_; } // that executors run it in
  // If not empty, column i of a row in type() multiplies input input_order()[i].
  std::vector<int32_t> input_order() const;
  uint64_t file_bytes() const;                      // of all its tensors
  std::vector<const gguf::Tensor*> tensors() const; // that it consists of

  // Rows [first, first + count), counted through all matrices, packed in type().
  void assemble(int64_t first, int64_t count, std::byte* out) const;
  // The same rows as f32, cols() wide, as the checkpoint's library computes them.
  void decode(int64_t first, int64_t count, float* out) const;

 private:
  enum class Scheme : uint8_t { affine, nf4, fp4, fp8_e4m3, nvfp4 };

  PlanarWeight() = default;
  struct KnownScheme;
  static const KnownScheme kKnown[7];
  void read_parts(const gguf::File& file, Scheme scheme, int bits);
  struct Row {
    std::vector<uint8_t> codes; // [cols]
    std::vector<float> scales;  // [groups]
  };
  Row read_row(int64_t row) const;
  void codes(int64_t row, uint8_t* out) const; // [cols]
  int zero(int64_t row, int64_t group) const;
  void assemble_row(int64_t row, std::byte* out) const;
  void decode_row(int64_t row, float* out) const; // columns in the codes' order
  int32_t input_of(int64_t column) const;         // of the codes

  std::string name_;
  Scheme scheme_ = Scheme::affine;
  int bits_ = 0;
  int64_t cols_ = 0, rows_ = 0, count_ = 1, groups_ = 0, group_ = 0;
  quant::Type type_ = quant::Type::F32;
  const gguf::Tensor *qdata_ = nullptr, *scales_ = nullptr, *zeros_ = nullptr, *perm_ = nullptr;
};

} // namespace ridge::models
