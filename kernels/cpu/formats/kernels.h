// Function tables per instruction set and their data; dispatched at run time.
#pragma once

#include "core/host_device/round_up.h"
#include "core/kv_type.h"
#include "core/ops.h"

#include <cstddef>
#include <cstdint>

namespace ridge::kernels::cpu {

inline constexpr int64_t kChunk = 256; // weights unpacked together
inline constexpr int64_t kPanelRows = 32;
inline constexpr int64_t kCodePanelCols = 1024;
inline constexpr int64_t kFloatPanelCols = 512;

using core::round_up;

// Summation order: a token's result is bit-identical for every kernel and batch size. A row has 16 partial sums. The
// exact integer sum of each group of 16 or 32 codes (as the format's scales) is scaled and added to partial sum (group
// % 16), for groups of 32 (group % 8). Float column c is added to partial sum (c % 16). Columns ascend. Finally sums i
// and i + 8 are added, then i and i + 4, i + 2, i + 1.
inline constexpr int64_t kPartialSums = 16;

// A row of activations, zero-padded to whole chunks. 8 bits: x[i] ≈ scale × code[i], one scale per 32 columns; wide:
// x[i] ≈ scale × (256 × code[i] + low[i]). The other arrays have an entry per 16 columns, because weight scales change
// every 16 or 32. Σ is over codes, or over 256 × code + low.
struct QuantizedRow {
  std::byte* data; // 9/4 bytes per column; wide: 13/4
  int64_t cols;    // padded
  bool wide;

  int8_t* code() const { return reinterpret_cast<int8_t*>(data); }
  float* scale() const { return floats(0); }                                // per 32, each twice
  float* sum16() const { return floats(1); }                                // scale × Σ of 16
  float* sum32() const { return floats(2); }                                // scale × Σ of 32, each twice
  int32_t* bias16() const { return reinterpret_cast<int32_t*>(floats(3)); } // −128 × Σ of 16
  int32_t* bias32() const { return reinterpret_cast<int32_t*>(floats(4)); } // −128 × Σ of 32, each twice
  int8_t* low() const { return reinterpret_cast<int8_t*>(floats(5)); }      // wide only

  static int64_t bytes(int64_t padded_cols, bool wide) { return padded_cols / 4 * (wide ? 13 : 9); }

 private:
  float* floats(int64_t i) const { return reinterpret_cast<float*>(data + cols + i * (cols / 4)); } // [cols / 16]
};

// The codes of 16 rows of activations, missing rows zeros, as AMX reads them: a matrix per group of 32 columns.
struct TokenTile {
  static constexpr int64_t kTokens = 16, kGroup = 32;
  std::byte* data;
  int64_t cols; // padded
  bool wide;

  int8_t* code() const { return reinterpret_cast<int8_t*>(data); }                                  // [groups][16][32]
  int8_t* low() const { return code() + kTokens * cols; }                                           // wide only
  float* scale() const { return reinterpret_cast<float*>(data + (wide ? 2 : 1) * kTokens * cols); } // [groups][16]
  float* sum() const { return scale() + kTokens * cols / kGroup; } // scale × Σ, [groups][16]
  TokenTile next(int64_t tiles) const { return {data + tiles * bytes(cols, wide), cols, wide}; }

  static int64_t bytes(int64_t padded_cols, bool wide) { return padded_cols * (wide ? 36 : 20); }
};

// Transposed: a vector holds four consecutive weights of each of its rows; for ByteDots::i8mm eight, so that rows of
// `code` come in pairs.
struct alignas(64) CodePanel {
  uint8_t code[kCodePanelCols / 4][kPanelRows][4]; // code + 128; on arm64 signed
  float scale[kCodePanelCols / 16][kPanelRows];    // per 16 or 32 columns
  float offset[kCodePanelCols / 16][kPanelRows];
};

// Column c is at float_panel_place(c): a partial sum's columns are adjacent.
struct alignas(64) FloatPanel {
  float weight[kFloatPanelCols][kPanelRows];
};
constexpr int64_t float_panel_place(int64_t column) {
  return column % kPartialSums * (kFloatPanelCols / kPartialSums) + column / kPartialSums;
}

inline constexpr int64_t kDotTokens = 8;

// `rows`: `count` packed rows, row_bytes apart.
struct FormatKernels {
  bool scale16 = false, has_offset = false;
  // out[t][r] = row r · x[t]. dot_codes: null for float formats.
  void (*dot_codes)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const QuantizedRow* x,
                    int64_t tokens, float* const* out) = nullptr;
  void (*dot_floats)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const float* x,
                     float* out) = nullptr;
  // Columns from first_col; missing rows repeat the last.
  void (*pack_codes)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                     CodePanel& panel) = nullptr;
  void (*pack_floats)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                      FloatPanel& panel) = nullptr;
};
FormatKernels format_kernels(uint32_t type); // throws Error if unknown

// For parallel builds.
inline constexpr int kFormatParts = 4;
bool format_kernels_part0(uint32_t type, FormatKernels& kernels);
bool format_kernels_part1(uint32_t type, FormatKernels& kernels);
bool format_kernels_part2(uint32_t type, FormatKernels& kernels);
bool format_kernels_part3(uint32_t type, FormatKernels& kernels);

// Adds panel row r · x[t] to sums [kPartialSums][tokens][kPanelRows]; first_col == 0 starts from zero. x are all wide
// or none.
struct MatmulKernels {
  void (*codes)(const CodePanel& panel, bool scale16, bool has_offset, int64_t first_col, int64_t cols,
                const QuantizedRow* x, int64_t tokens, float* sums);
  void (*floats)(const FloatPanel& panel, int64_t first_col, int64_t cols, const float* const* x, int64_t tokens,
                 float* sums);
  // out[t][r] = the total of `count` partial sums (+ bias[r], if not null) for `tokens` of `stride` tokens.
  void (*reduce)(const float* sums, int64_t count, int64_t stride, int64_t tokens, int64_t rows, const float* bias,
                 float* const* out);
  // For weight scales per 32 columns; null without AMX. out: of the tokens x.
  void (*arrange)(const QuantizedRow* x, int64_t tokens, TokenTile out);
  void (*tiles)(const CodePanel& panel, bool has_offset, int64_t first_col, int64_t cols, TokenTile x, int64_t count,
                float* sums);
};
inline constexpr int64_t kLeastTiledTokens = 24; // fewer are faster without AMX
const MatmulKernels& matmul_kernels();           // as byte_dots() is now

struct VectorKernels {
  void (*quantize)(const float* x, int64_t cols, QuantizedRow out);
  void (*rms_norm)(const float* x, const float* weight, int64_t width, float epsilon, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t width, float epsilon,
                     bool centered, float* out);
  // cos_sin: cosines, then sines. Other elements are copied.
  void (*rope_adjacent)(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out);
  void (*rope_split)(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out);
  void (*activate)(const core::ActivationParams& params, const float* x, int64_t width, float* out);
  void (*glu)(const core::ActivationParams& params, const float* gate, const float* x, int64_t width, float* out);
  void (*add)(const float* a, const float* b, float scale, int64_t width, float* out);
  void (*scale_add)(const float* x, float factor, int64_t width, float* out);
};
const VectorKernels& vector_kernels();

// One token's step; formulas in core/ops.def.
struct RecurrentKernels {
  // inputs[i]: the row kernel - 1 - i tokens back.
  void (*convolve)(const float* const* inputs, const float* taps, const float* bias, int64_t kernel, int64_t first,
                   int64_t count, float* sum);
  // state [dim (v)][dim (k)], decay [dim]; q and k normalized, q scaled.
  void (*delta_rule)(const float* q, const float* k, const float* v, const float* decay, float beta, int64_t dim,
                     float* state, float* out);
  // state and decay [states].
  float (*scan)(const float* decay, const float* b, const float* c, float factor, int64_t states, float* state);
};
const RecurrentKernels& recurrent_kernels();

// Keys: blocks of 16 positions, [k_dim][16], so that a vector holds one dimension of 16 positions. Values: rows of
// v_dim padded to 16. Types with blocks of 32 (core/kv_type.h) have codes, then fifth bits, f16 scales and f16 minima
// where the type has them, each part by block and for keys [16]. In 4 and 5 bits byte i of a block has the low bits of
// elements i and, above, i + 16; byte i of the fifth bits those of 8 elements. Lengths are multiples of kPositionTile.
inline constexpr int64_t kKeyBlock = 16;
inline constexpr int64_t kPositionTile = 32;
inline constexpr int64_t kAttentionBlock = 128;

struct AttentionTask {
  const float* q;                                     // [group][q_dim] of the first token
  const float* q_rest;                                // [group][k_dim - q_dim]: rest of each query if separate
  float* out;                                         // [group][v_dim]
  int64_t q_dim, q_stride, q_rest_stride, out_stride; // strides: floats between tokens
  int64_t tokens, group, first_position;
  int64_t end;                    // of the stream's tokens in the batch, for attention without a causal mask
  int64_t block_first, block_end; // of the block that contains the tokens; 0: none
  const std::byte* k;
  const std::byte* v; // null: the first v_dim elements of keys
  int64_t ring;       // rows; 0: position p is in row p
  core::KvType k_type, v_type;
  int64_t k_dim, v_dim;
  const core::AttentionParams* params;
  int64_t first_head;
  const float* sinks;  // [group] or null
  const float* biases; // [group][2 * reach + 1] or null
  float* scratch;      // attention_scratch floats, 64-byte aligned
  float* tile;         // kPositionTile keys or values in f32
};
constexpr int64_t attention_scratch(int64_t rows, int64_t k_dim, int64_t v_dim) {
  return rows * (round_up(k_dim, 16) + round_up(v_dim, 16) + kAttentionBlock) + round_up(2 * rows, 16);
}
constexpr int64_t attention_tile(int64_t k_dim, int64_t v_dim) {
  return kPositionTile * std::max(round_up(k_dim, 16), round_up(v_dim, 16));
}

struct AttentionKernels {
  void (*store_key)(const float* key, int64_t k_dim, int64_t position, core::KvType type, std::byte* blocks);
  void (*store_value)(const float* value, int64_t v_dim, int64_t position, core::KvType type, std::byte* rows);
  void (*attend)(const AttentionTask& task);
  // Copies a key between blocks of the same type.
  void (*copy_key)(const std::byte* from, int64_t position, std::byte* to, int64_t at, int64_t k_dim,
                   core::KvType type);
  // out[p] = Σ weights[head] * max(0, q[head] · key p), p <= task.first_position; padded to whole attention blocks.
  void (*index_scores)(const AttentionTask& task, const float* weights, float* out);
};
const AttentionKernels& attention_kernels();

} // namespace ridge::kernels::cpu
