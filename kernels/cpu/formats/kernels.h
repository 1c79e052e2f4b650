// The functions that are compiled once per instruction set, and the data they exchange with the executor.
// Each table is what run-time dispatch picks for this CPU.
#pragma once

#include "core/host_device/round_up.h"
#include "core/kv_type.h"
#include "core/ops.h"

#include <cstddef>
#include <cstdint>

namespace ridge::kernels::cpu {

inline constexpr int64_t kChunk = 256;          // weights of a row that are unpacked together
inline constexpr int64_t kPanelRows = 32;       // rows of W that a matrix tile covers
inline constexpr int64_t kCodePanelCols = 1024; // columns of W unpacked at once
inline constexpr int64_t kFloatPanelCols = 256;

using core::round_up;

// The one order of sums. A token gets the same bits from a matrix whichever kernel computes them and with whatever
// tokens beside it: a row of W has 16 partial sums. With codes, the integers of each group of 16 columns, or 32, as the
// format's scales have it, are added up exactly, scaled, and added to partial sum (group % 16), or of eight to
// (group % 8). With floats column c goes to partial sum (c % 16). Columns come in ascending order. In the end sums i
// and i + 8 are added, then i and i + 4, i and i + 2, i and i + 1.
inline constexpr int64_t kPartialSums = 16;

// One row of activations in 8 bits, x[i] ≈ scale of its 32 × code[i], or wide, in 16: x[i] ≈ scale × (256 × code[i] +
// low[i]). What the dots need beside the codes is kept of the 16 or 32 values around each 16, because weight scales and
// offsets change at either step; Σ is over codes, or over 256 × code + low. Padded with zeros to whole chunks.
struct QuantizedRow {
  std::byte* data; // 9 or, wide, 13 quarters of a byte per padded column
  int64_t cols;    // padded
  bool wide;

  int8_t* code() const { return reinterpret_cast<int8_t*>(data); }
  float* scale() const { return floats(0); }                                // each twice, since it is that of 32 values
  float* sum16() const { return floats(1); }                                // scale × Σ of 16
  float* sum32() const { return floats(2); }                                // scale × Σ of 32, each twice
  int32_t* bias16() const { return reinterpret_cast<int32_t*>(floats(3)); } // −128 × Σ of 16
  int32_t* bias32() const { return reinterpret_cast<int32_t*>(floats(4)); } // −128 × Σ of 32, each twice
  int8_t* low() const { return reinterpret_cast<int8_t*>(floats(5)); }      // of a wide row

  static int64_t bytes(int64_t padded_cols, bool wide) { return padded_cols / 4 * (wide ? 13 : 9); }

 private:
  float* floats(int64_t i) const { return reinterpret_cast<float*>(data + cols + i * (cols / 4)); } // [cols / 16]
};

// A piece of 32 rows × 1024 columns, transposed so that one vector holds four consecutive weights of each of 16 rows.
struct alignas(64) CodePanel {
  uint8_t code[kCodePanelCols / 4][kPanelRows][4]; // code + 128
  float scale[kCodePanelCols / 16][kPanelRows];    // per 16 or 32 columns, as the format has it
  float offset[kCodePanelCols / 16][kPanelRows];   // unused by formats without offsets
};

// The same of decoded weights. Columns of a partial sum lie together: column c at float_panel_place(c).
struct alignas(64) FloatPanel {
  float weight[kFloatPanelCols][kPanelRows];
};
constexpr int64_t float_panel_place(int64_t column) {
  return column % kPartialSums * (kFloatPanelCols / kPartialSums) + column / kPartialSums;
}

inline constexpr int64_t kDotTokens = 8; // that a row is multiplied with at once, at most

// Per weight format. `rows` points at the first of `count` packed rows, row_bytes apart, of `cols` weights each.
struct FormatKernels {
  bool scale16 = false, has_offset = false;
  // out[t][r] = row r · x[t] for up to kDotTokens tokens, quantized, or of f32. dot_codes is null for float formats.
  void (*dot_codes)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const QuantizedRow* x,
                    int64_t tokens, float* const* out) = nullptr;
  void (*dot_floats)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, const float* x,
                     float* out) = nullptr;
  // Fills a panel with up to kPanelRows rows from first_col on; rows that do not exist repeat the last one.
  void (*pack_codes)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                     CodePanel& panel) = nullptr;
  void (*pack_floats)(const std::byte* rows, int64_t row_bytes, int64_t count, int64_t cols, int64_t first_col,
                      FloatPanel& panel) = nullptr;
};
FormatKernels format_kernels(uint32_t type); // throws Error for a type it does not know

// The formats are compiled in parts, for the sake of parallel builds.
inline constexpr int kFormatParts = 4;
bool format_kernels_part0(uint32_t type, FormatKernels& kernels);
bool format_kernels_part1(uint32_t type, FormatKernels& kernels);
bool format_kernels_part2(uint32_t type, FormatKernels& kernels);
bool format_kernels_part3(uint32_t type, FormatKernels& kernels);

// The partial sums of panel row r · x[t], [tokens][kPartialSums][kPanelRows]. `codes` and `floats` add what `cols`
// columns from first_col on give, and begin with zeros where that is 0. All of x are wide, or none.
struct MatmulKernels {
  void (*codes)(const CodePanel& panel, bool scale16, bool has_offset, int64_t first_col, int64_t cols,
                const QuantizedRow* x, int64_t tokens, float* sums);
  void (*floats)(const FloatPanel& panel, int64_t first_col, int64_t cols, const float* const* x, int64_t tokens,
                 float* sums);
  // The first `count` partial sums of each token to one, sums[t][0][r].
  void (*join)(float* sums, int64_t count, int64_t tokens);
};
const MatmulKernels& matmul_kernels();

struct VectorKernels {
  void (*quantize)(const float* x, int64_t cols, QuantizedRow out);
  void (*rms_norm)(const float* x, const float* weight, int64_t width, float epsilon, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t width, float epsilon,
                     bool centered, float* out);
  // cos_sin: `pairs` cosines, then as many sines. Elements past the rotated ones are copied.
  void (*rope_adjacent)(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out);
  void (*rope_split)(const float* x, const float* cos_sin, int64_t pairs, int64_t head_dim, float* out);
  void (*activate)(const core::ActivationParams& params, const float* x, int64_t width, float* out);
  void (*glu)(const core::ActivationParams& params, const float* gate, const float* x, int64_t width, float* out);
  void (*add)(const float* a, const float* b, float scale, int64_t width, float* out); // out = a + scale * b
  void (*scale_add)(const float* x, float factor, int64_t width, float* out);          // out += factor * x
};
const VectorKernels& vector_kernels();

// One token's step of a recurrent op (core/ops.def says what each computes).
struct RecurrentKernels {
  // sum = bias + Σ taps * inputs for `count` channels: inputs[i] is the row i - (kernel - 1) tokens away.
  void (*convolve)(const float* const* inputs, const float* taps, const float* bias, int64_t kernel, int64_t first,
                   int64_t count, float* sum);
  // A head: state [dim (v)][dim (k)]; q and k are normed, q scaled. decay [dim].
  void (*delta_rule)(const float* q, const float* k, const float* v, const float* decay, float beta, int64_t dim,
                     float* state, float* out);
  // A row of a head: state [states]. decay [states].
  float (*scan)(const float* decay, const float* b, const float* c, float factor, int64_t states, float* state);
};
const RecurrentKernels& recurrent_kernels();

// Keys are cached in blocks of 16 positions, [k_dim][16], so that one vector holds one dimension of 16 positions;
// values as rows of v_dim padded to 16. In q8_0 a block of keys, or a row of values, has its codes first, then its f16
// scales, [k_dim / 32][16] or [v_dim / 32]. Cached lengths are padded to kPositionTile.
inline constexpr int64_t kKeyBlock = 16;
inline constexpr int64_t kPositionTile = 32;
inline constexpr int64_t kAttentionBlock = 128; // positions per pass of the online softmax

// The queries of `tokens` consecutive positions that share one KV head: `group` heads each.
struct AttentionTask {
  const float* q;      // [group][q_dim] for the first token
  const float* q_rest; // [group][k_dim - q_dim], the end of each query, where it lies apart
  float* out;          // [group][v_dim]
  int64_t q_dim, q_stride, q_rest_stride, out_stride; // strides: floats between tokens
  int64_t tokens, group, first_position;
  int64_t end;                    // of the stream's tokens in the batch, which tokens without a causal mask see
  int64_t block_first, block_end; // of the block that the tokens are in; 0: of none
  const std::byte* k;             // this head's key blocks
  const std::byte* v;             // this head's value rows; null: a value is the first v_dim elements of its key
  int64_t ring;                   // rows of it that positions take in turn; 0: position p has row p
  core::KvType k_type, v_type;
  int64_t k_dim, v_dim;
  const core::AttentionParams* params; // scale, window, soft cap, bias
  int64_t first_head;                  // of the group
  const float* sinks;                  // of the group's heads, or null
  const float* biases;                 // [group][2 * reach + 1], or null
  float* scratch;                      // attention_scratch floats, 64-byte aligned
};
constexpr int64_t attention_scratch(int64_t rows, int64_t k_dim, int64_t v_dim) {
  return rows * (round_up(k_dim, 16) + round_up(v_dim, 16) + kAttentionBlock) + round_up(2 * rows, 16);
}

struct AttentionKernels {
  // Writes one head's key (k_dim floats) of `position` into its blocks, or its value into its rows.
  void (*store_key)(const float* key, int64_t k_dim, int64_t position, core::KvType type, std::byte* blocks);
  void (*store_value)(const float* value, int64_t v_dim, int64_t position, core::KvType type, std::byte* rows);
  void (*attend)(const AttentionTask& task);
  // A key to another place, of the same type: from `position` of its blocks to `at` of others.
  void (*copy_key)(const std::byte* from, int64_t position, std::byte* to, int64_t at, int64_t k_dim,
                   core::KvType type);
  // out[p] = Σ weights[head] * max(0, q[head] · key p), for the `group` heads of one token and its positions up to
  // task.first_position. `out` has room for whole attention blocks.
  void (*index_scores)(const AttentionTask& task, const float* weights, float* out);
};
const AttentionKernels& attention_kernels();

} // namespace ridge::kernels::cpu
