// Weights of checkpoints that came quantized, in schemes that GGUF has no type for. A file keeps each such matrix W
// ("blk.0.attn_q.weight") without loss in ordinary tensors beside each other, so that every GGUF reader can list them:
//
//   W.qdata    I8   [cols * bits / 8, rows]   codes; a row is a little-endian stream of `bits` bits each
//   W.scales   F32, F16 or BF16 [groups, rows]   a group is cols / groups consecutive columns
//   W.absmax   F32 [groups, rows]             nf4, fp4: in place of W.scales
//   W.zeros    I8   [groups, rows]            affine, where zeros are stored; else every zero is 2^(bits - 1)
//   W.perm     I32  [cols]                    act-order: column i of the codes multiplies input perm[i]
//
// all with a third dimension for experts, but perm; and `ridge.quant.scheme` says what a code q means, s being the
// scale:
//
//   affine2, affine3, affine4, affine8   s * (q - zero); the number is `bits`; zeros of 8-bit codes are stored less 128
//   nf4, fp4                             s * level[q] of bitsandbytes, bits 4
//   fp8_e4m3                             s * E4M3, bits 8
//
// NVFP4 has a GGUF type; but W may have a scale of its own in W's sibling NAME.scale (F32, one number per matrix), and
// then it is one of these too. Executors run all of them as the in-memory formats at the end of quant/formats.def;
// making those costs a second copy of the weights in memory while the file stays mapped.
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

class PlanarWeight {
 public:
  // The matrix W of the file; nothing where there is no such thing. Throws Error where its parts do not fit together.
  static std::optional<PlanarWeight> find(const gguf::File& file, const std::string& name);
  // The names W of all there are, in file order, without the NVFP4 ones.
  static std::vector<std::string> names(const gguf::File& file);

  const std::string& name() const { return name_; }
  int64_t cols() const { return cols_; }
  int64_t rows() const { return rows_; }     // of one matrix
  int64_t count() const { return count_; }   // matrices (experts; else 1)
  std::string scheme() const;                // "affine4", …
  quant::Type type() const { return type_; } // what it runs as
  // Where not empty, column i of type()'s rows multiplies input input_order()[i].
  std::vector<int32_t> input_order() const;
  uint64_t file_bytes() const;                      // of all its tensors
  std::vector<const gguf::Tensor*> tensors() const; // all it is made of

  // Rows [first, first + count) of all matrices one after the other: as type() has them.
  void assemble(int64_t first, int64_t count, std::byte* out) const;
  // The same rows as f32, cols() wide, as the checkpoint's library computes them.
  void decode(int64_t first, int64_t count, float* out) const;

 private:
  enum class Scheme : uint8_t { affine, nf4, fp4, fp8_e4m3, nvfp4 };

  PlanarWeight() = default;
  struct KnownScheme;
  void read_parts(const gguf::File& file, Scheme scheme, int bits);
  void codes(int64_t row, uint8_t* out) const; // [cols]
  void scales(int64_t row, float* out) const;  // [groups]
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
