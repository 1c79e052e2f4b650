// Weights in quantization schemes without a GGUF type. A file stores each such matrix W losslessly as ordinary tensors:
//      W.qdata    I8   [cols * bits / 8, rows]   codes: per row a little-endian stream of `bits` bits each
//      W.scales   F32, F16 or BF16 [groups, rows]   a group is cols / groups consecutive columns
//      W.absmax   F32 [groups, rows]             nf4, fp4: replaces W.scales
//      W.zeros    I8   [groups, rows]            affine; default 2^(bits - 1)
//      W.perm     I32  [cols]                    act-order: column i of the codes multiplies input perm[i]
// Experts add a third dimension, except to perm. `ridge.quant.scheme` gives the meaning of code q with scale s of its
// group:
//      affine2, affine3, affine4, affine8   s * (q - zero); the number is `bits`; 8-bit zeros are stored minus 128
//      nf4, fp4                             s * level[q] of bitsandbytes, bits 4
//      fp8_e4m3                             s * E4M3, bits 8
// Also covers NVFP4 matrices with a tensor NAME.scale (F32, one factor per matrix). Executors run all of these in the
// in-memory formats at the end of quant/formats.def, a second copy of the weights.
#pragma once

#include "gguf/gguf.h"
#include "quant/formats/level_tables.h"
#include "quant/registry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

using quant::kFp4Levels;
using quant::kNf4Levels;

// The first `half` codes go to the low nibbles, the others to the high ones.
inline void store_nibbles(const uint8_t* codes, int half, uint8_t* out) {
  for (int i = 0; i < half; ++i) out[i] = static_cast<uint8_t>(codes[i] | codes[i + half] << 4);
}

class PlanarWeight {
 public:
  // The matrix W; nothing if the file has none. Throws Error if its parts do not fit.
  static std::optional<PlanarWeight> find(const gguf::File& file, const std::string& name);
  static std::vector<std::string> names(const gguf::File& file);

  const std::string& name() const { return name_; }
  int64_t cols() const { return cols_; }
  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  std::string scheme() const;
  quant::Type type() const { return type_; } // format in executors
  // If not empty, column i in type() multiplies input input_order()[i].
  std::vector<int32_t> input_order() const;
  uint64_t file_bytes() const;
  std::vector<const gguf::Tensor*> tensors() const;

  // Packs rows [first, first + count), counted across all matrices, in type().
  void assemble(int64_t first, int64_t count, std::byte* out) const;
  // The same rows as f32, with the arithmetic of the checkpoint's library.
  void decode(int64_t first, int64_t count, float* out) const;

 private:
  enum class Scheme : uint8_t { affine, nf4, fp4, fp8_e4m3, nvfp4 };

  PlanarWeight() = default;
  struct KnownScheme;
  static const KnownScheme kKnown[7];
  void read_parts(const gguf::File& file, Scheme scheme, int bits);
  struct Row {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
  };
  Row read_row(int64_t row) const;
  void codes(int64_t row, uint8_t* out) const;
  int zero(int64_t row, int64_t group) const;
  void assemble_row(int64_t row, std::byte* out) const;
  void decode_row(int64_t row, float* out) const;
  int32_t input_of(int64_t column) const; // input multiplied by the codes' column

  std::string name_;
  Scheme scheme_ = Scheme::affine;
  int bits_ = 0;
  int64_t cols_ = 0, rows_ = 0, count_ = 1, groups_ = 0, group_ = 0;
  quant::Type type_ = quant::Type::F32;
  const gguf::Tensor *qdata_ = nullptr, *scales_ = nullptr, *zeros_ = nullptr, *perm_ = nullptr;
};

} // namespace ridge::models
