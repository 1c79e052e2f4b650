// Launchers of what several ops or products share. Activations are f32, [rows, width]; all pointers are device
// memory. `tokens` rows have their position and stream in two arrays, which kernels read when they run.
#pragma once

#include "core/host_device.h"
#include "core/ops.h"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/divisor.h"

namespace ridge::kernels::cuda {

// What a recurrent op goes through: a sequence is the tokens of one stream, in their order. A block has one sequence.
struct Sequences {
  enum class Kind : uint8_t {
    token_each, // token i is all of sequence i
    one,        // all tokens are of one stream, in order
    mixed,      // sequence i has the tokens of stream i, wherever they are
  };
  Kind kind;
  int count;
};

// out = Σ scale * x [rows, width]. A term may be of several rows per token, with a factor for each.
struct SumArgs {
  struct Term {
    const float *x, *factors = nullptr; // [rows, count * width], [rows, count]; without factors, count is 1
    int count = 1;
    bool gated = false; // factors are gates: their sigmoids count
    float scale = 1;
  };
  static constexpr int kMostTerms = 4;
  Term terms[kMostTerms];
  int count;
  float* out;
  int64_t rows, width;
  int64_t sums = 1;            // of each row of x, one behind the other in `out`; with one term only
  bool dataflow_input = false; // x and factors arrive while the kernel runs (ptx.cuh)
};
void launch_sum(const Launch&, const SumArgs&);

// normed = norm(x) * weight * silu(gate), or norm(silu(gate) * x) * weight, for each group of elements.
// out = normed, or factor * (residual + scale * normed).
struct NormArgs {
  const float *x, *weight, *gate; // [groups * group], [weight_groups * group], as x or null
  float* out;
  int64_t groups, group;
  Divisor weight_groups; // that have weights of their own: one, or those of a row
  float epsilon;
  bool gates_input = false;
  const float* residual = nullptr; // as x or null
  float scale = 1, factor = 1;
  bool dataflow_input = false; // x and residual arrive while the kernel runs (ptx.cuh); without a gate
};
void launch_norm(const Launch&, const NormArgs&);

void launch_gate_up_glu(const Launch&, const core::ActivationParams&, const float* gate, const float* up, float* out,
                        int64_t n);

// Rows as f16 for the matrix products, RMS-normed first where norm_weight is given. All `stride` columns (a multiple of
// 64) are written.
struct HalfArgs {
  const float* x; // [rows, cols]
  const float* norm_weight = nullptr;
  bool centers = false; // a layer norm instead, of at most kMostNormedColumns, to HalfLayout::tiles
  const float* norm_bias = nullptr;
  float epsilon = 0;
  int rows, cols;

  uint16_t* out;
  int stride; // columns
  HalfLayout layout;
  Divisor tiled_rows; // of HalfLayout::tiles; wide and sorted_wide: of a tile
  const int* places;  // sorted_wide: of each row `used`, one after the other (launch_group_slots)
  int used;
  int8_t* exponents; // [rows]; sorted_wide: by place

  // What a product for small batches left unfinished (BatchArgs::leaves_sums), in ranges, or none: x is what is added
  // to it, `sum_out` gets the result, which is what is normed. cols is a multiple of 8 then.
  const float* sums = nullptr;
  const float* bias = nullptr; // [cols] or null
  float* sum_out = nullptr;
  int ranges = 0;
  int64_t range_floats = 0, row_floats = 0;

  unsigned* cleared = nullptr; // largest values (BatchArgs::out_largest) that are 0 behind this; or null
  int cleared_per_row = 0;
};
void launch_to_half(const Launch&, const HalfArgs&);

// Where a token is, beside its position, in Programs with places and in those whose tokens see later ones.
struct alignas(32) TokenPlace {
  int32_t shift[core::kPlaceAxes];    // from its position to its places (core::Batch::axes)
  int32_t block_first, block_end = 0; // the positions of its block; end 0: it is in none
  int32_t stream_end;                 // the position behind its stream's last token in the batch
  int32_t unused = 0;
};

// What one head's rotation needs: `pairs` angular frequencies, and where a pair's second element lies.
struct RopeArgs {
  const float* inverse_frequency; // [pairs]
  int pairs;
  float magnitude;
  bool split; // pairs (i, i + pairs), else (2i, 2i + 1)
  int span;   // a position counts as the first of its `span`
  // [pairs]: which of a token's places turns each pair, and the tokens' places; null: their position does.
  const uint8_t* axes = nullptr;
  const TokenPlace* places = nullptr;

  RIDGE_HD int place_of(int pair, int token, int position) const {
    return (axes ? position + places[token].shift[axes[pair]] : position) / span * span;
  }
};

// A layer's cache: K of stream s, head h, position p at ((s * heads + h) * rows + p) * k_dim elements; V likewise. In a
// ring, which has fewer rows than a context, positions take them in turn: p % rows stands for p.
// Latent attention has no V. In q8_0 an element is a byte, and the f16 scales of 32 elements each are arrays of
// their own.
struct Cache {
  void* k;
  void* v;
  bool k_half, v_half; // f16, else f32, or q8_0 where there are scales
  int heads, k_dim, v_dim;
  int64_t rows;
  int streams = 1;
  uint16_t *k_scales = nullptr, *v_scales = nullptr;
  bool ring = false;

  // The position in row 0 when `position` was stored.
  RIDGE_HD int lap_of(int position) const {
    const int count = static_cast<int>(rows);
    return ring ? position / count * count : 0;
  }
  RIDGE_HD int row_of(int position) const { return position - lap_of(position); }
};

// One launch for everything between the q/k/v matrices and attention: norm of each head (where a weight is given),
// rotation, storing. Any of q, k, v may be null: left out.
struct RopeStoreArgs {
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  const float *q_in, *k_in, *v_in; // [tokens, heads * dim]
  float *q_out, *k_out;            // rotated; k_out null: only stored
  const float *q_norm, *k_norm;    // [dim] or null
  bool norms_v;                    // with factors that are all 1; v's heads are as wide as the others
  float epsilon;
  int q_heads, k_heads, head_dim; // k_heads also without a cache
  bool rotate;
  RopeArgs rope;
  bool store;
  Cache cache;
  bool dataflow_input = false; // q, k and v arrive while the kernel runs (ptx.cuh); for launch_rope_attention
};
void launch_rope_store(const Launch&, const RopeStoreArgs&);
bool can_rope_prompts(const RopeStoreArgs&); // q, k and v into f16 caches
void launch_prompt_rope(const Launch&, const RopeStoreArgs&);

// A token's row into a layer's cache of latent attention: c, normed where a weight is given, and r behind it, rotated
// where a rotation is given; and the queries for r, rotated likewise.
struct LatentStoreArgs {
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  const float *c, *r;  // [tokens, v_dim], [tokens, k_dim - v_dim]
  const float* c_norm; // [v_dim] or null
  float epsilon;
  const float* q_in; // [tokens, q_heads * (k_dim - v_dim)] or null
  float* q_out;      // likewise
  int q_heads;
  bool rotate; // whole heads
  RopeArgs rope;
  Cache cache;
};
void launch_latent_store(const Launch&, const LatentStoreArgs&);

// The positions that a token sees, as core::AttentionParams says it.
struct Window {
  int size; // 0: all before it
  bool chunked;
  bool causal = true;                          // else also later ones: of the whole stream, or as many as before it
  bool in_blocks = false, block_ahead = false; // a token in a block sees that block only, or all up to its end

  RIDGE_HD int first_seen(int position) const {
    if (size == 0) return 0;
    return chunked ? position / size * size : position < size ? 0 : position + 1 - size;
  }
  // The position behind the last one, where its stream ends at `end`.
  RIDGE_HD int end_seen(int position, int end) const {
    if (causal) return position + 1;
    return size == 0 || end - position < size ? end : position + size;
  }

  // The same for a token whose place is needed: where tokens see later ones. Positions from first to end.
  struct Span {
    int first, end;
  };
  RIDGE_HD Span seen_from(int position, const TokenPlace& place) const {
    const bool in_block = (in_blocks || block_ahead) && place.block_end > 0;
    return {in_blocks && in_block ? place.block_first : first_seen(position),
            in_block ? place.block_end : end_seen(position, place.stream_end)};
  }
};

struct AttentionArgs {
  const float* q; // [tokens, heads * k_dim]
  float* out;     // [tokens, heads * v_dim]
  // For launch_attention: the same as f16, interleaved or wide (half_layout.h), with exponents of 0: a weighted mean of
  // values of an f16 cache has room in it. For launch_prompt_attention: in tiles. Or null.
  uint16_t* out_half = nullptr;
  HalfLayout half_layout = HalfLayout::interleaved;
  int8_t* exponents = nullptr; // [tokens]
  const int32_t* positions;
  const int32_t* streams;
  int tokens, heads;
  Divisor group; // the heads that share one of the cache's
  float scale;
  Window visible;
  const TokenPlace* places = nullptr; // of tokens that see later ones: for prompts, and launch_plain_attention
  float soft_cap;                     // 0: none
  const float* sinks;                 // [heads] or null
  // For launch_plain_attention:
  float max_bias = 0;            // of ALiBi, 0: none
  const float* biases = nullptr; // [heads][2 * reach + 1], by distance, or null
  int reach = 0;
  const int32_t* chosen = nullptr; // [tokens, most], -1 behind the last; null: all
  int most = 0;
  Cache cache;
  int tile_tokens;   // per block; more than one only where consecutive tokens are of one stream and see all before them
  int splits;        // blocks that share a tile's context (attention_splits)
  float* partial;    // scratch, attention_scratch_floats
  unsigned* tickets; // kAttentionTickets per tile and KV head, zero before and after
  Stamp* stamps = nullptr;
};
bool fast_attention(const Cache& cache, float soft_cap,
                    const ChipLimits& chip);                     // else `splits` and `tile_tokens` are not used
bool wide_attention(const Cache& cache, const ChipLimits& chip); // of them those of launch_wide_attention
void launch_attention(const Launch&, const AttentionArgs&);
void launch_wide_attention(const Launch&, AttentionArgs);
void launch_plain_attention(const Launch&, const AttentionArgs&); // for any head size and cache

// The same with the work of launch_rope_store in the same kernel; q of `args` and q_out are not used. Each token is of
// another stream and a tile of its own, or they are `one_run`: at most kAttentionRows tokens of one stream, in
// sequence. Positions, streams and caches are read before the predecessor is done: none of its own batch writes them.
bool can_fuse_rope(const ChipLimits&, const AttentionArgs&, const RopeStoreArgs&, bool one_run);
void launch_rope_attention(const Launch&, const AttentionArgs&, const RopeStoreArgs&, bool one_run);

// launch_attention for many consecutive tokens of one stream, also such as see later ones, where can_multiply_prompts
// (prompt_product.h); `tile_tokens`, `splits` and the scratch are not used.
bool can_attend_prompts(const Cache& cache, int heads);
void launch_prompt_attention(const Launch&, AttentionArgs);
// The same by mma, from sm_80 on, over caches of f16 or q8_0.
bool can_attend_by_mma(const Cache& cache, int heads, const ChipLimits& chip);
void launch_mma_attention(const Launch&, const AttentionArgs&);

// Latent attention: all heads read one key, whose first v_dim elements are the value, too. The cache has no values.
struct LatentArgs {
  const float* q;      // [tokens, heads * v_dim]
  const float* q_rest; // [tokens, heads * (k_dim - v_dim)], for the rest of the key
  float* out;          // [tokens, heads * v_dim]
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  Divisor heads;
  float scale;
  Cache cache;
  Stamp* stamps = nullptr;

  // For launch_plain_latent_attention:
  const int32_t* chosen = nullptr; // [tokens, most], -1 behind the last; null: all
  int most = 0;
  const TokenPlace* places = nullptr; // where tokens see the end of their blocks
  const float* sinks = nullptr;       // [heads], or null
  int window = 0;                     // positions that a token sees; 0: all
  Cache entries = {};                 // seen beside the window: entries for `span` positions, the chosen or all
  int span = 0;                       // 0: there are none

  // For launch_latent_attention:
  bool tokens_share_tiles; // all tokens are of one stream and in sequence
  bool lone_tokens;        // each token is the only one of its stream
  int most_splits;         // blocks that may share a tile's context
  float* partial;          // scratch, latent_scratch_floats
  // Set by the launcher:
  Divisor splits, tiles_per_token;
  int stages;
};
bool fast_latent_attention(const Cache& cache, const ChipLimits& chip); // else the plain one
void launch_latent_attention(const Launch&, const LatentArgs&);
void launch_plain_latent_attention(const Launch&, const LatentArgs&); // for any widths and cache

// The positions that an indexer finds best for each token.
struct IndexArgs {
  const float* q;       // [tokens, heads * k_dim]
  const float* weights; // [tokens, heads], or null: 1
  int32_t* chosen;      // [tokens, most]
  const int32_t* positions;
  const int32_t* streams;
  int tokens, heads, most;
  int span;   // positions of an entry of the cache
  bool tail;  // chosen, too: positions that no entry has yet
  bool fills; // core::IndexParams
  Cache cache;
  float* scores; // scratch, [kIndexedTokens, context]
  Stamp* stamps = nullptr;
};
void launch_index_choice(const Launch&, IndexArgs);

} // namespace ridge::kernels::cuda
