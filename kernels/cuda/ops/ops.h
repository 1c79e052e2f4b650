// Shared arguments and launchers. Activations are f32 [rows, width] on the device. Kernels read positions and streams
// when they run.
#pragma once

#include "core/host_device.h"
#include "core/host_device/kv_rotation.h"
#include "core/ops.h"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/divisor.h"

namespace ridge::kernels::cuda {

// How a recurrent op's tokens form sequences; each is of one stream.
struct Sequences {
  enum class Kind : uint8_t {
    token_each, // token i is sequence i
    one,
    mixed, // sequence i has the tokens of stream i
  };
  Kind kind;
  int count;
};

// out = Σ scale * x [rows, width].
struct SumArgs {
  struct Term {
    const float *x, *factors = nullptr; // [rows, count * width]; [rows, count] or null
    int count = 1;
    bool gated = false; // applies a sigmoid to factors
    float scale = 1;
  };
  static constexpr int kMaxTerms = 4;
  Term terms[kMaxTerms];
  int count;
  float* out;
  int64_t rows, width;
  int64_t sums = 1;            // per row of x, consecutive in `out`; with one term only
  bool dataflow_input = false; // inputs arrive during the kernel (ptx.cuh)
};
void launch_sum(const Launch&, const SumArgs&);

// normed = norm(x) * weight * silu(gate), or norm(silu(gate) * x) * weight; out = normed, or factor * (residual + scale
// * normed).
struct NormArgs {
  const float *x, *weight, *gate; // [groups * group], [weight_groups * group], like x or null
  float* out;
  int64_t groups, group;
  Divisor weight_groups; // 1, or the groups of a row
  float epsilon;
  bool gates_input = false;
  const float* residual = nullptr;
  float scale = 1, factor = 1;
  bool dataflow_input = false; // inputs arrive during the kernel (ptx.cuh); no gate
};
void launch_norm(const Launch&, const NormArgs&);

void launch_gate_up_glu(const Launch&, const core::ActivationParams&, const float* gate, const float* up, float* out,
                        int64_t n);

// Rows to f16, optionally normed. Writes all `stride` columns (a multiple of 64).
struct HalfArgs {
  const float* x; // [rows, cols]
  const float* norm_weight = nullptr;
  bool centers = false; // layer norm, at most kMaxNormedColumns, to HalfLayout::tiles
  const float* norm_bias = nullptr;
  float epsilon = 0;
  int rows, cols;

  uint16_t* out;
  int stride;
  HalfLayout layout;
  Divisor tiled_rows; // HalfLayout::tiles: all rows; wide layouts: of a tile
  const int* places;  // sorted_wide: `used` per row (launch_group_slots)
  int used;
  int8_t* exponents; // [rows]; sorted_wide: by place

  // Partial sums of a product (BatchArgs::leaves_sums), or null. Adds them to x, stores the result in `sum_out` and
  // norms it. cols: a multiple of 8.
  const float* sums = nullptr;
  const float* bias = nullptr; // [cols] or null
  float* sum_out = nullptr;
  int ranges = 0;
  int64_t range_floats = 0, row_floats = 0;

  unsigned* cleared = nullptr; // BatchArgs::out_largest, which is zeroed; or null
  int cleared_per_row = 0;
};
void launch_to_half(const Launch&, const HalfArgs&);

struct alignas(32) TokenPlace {
  int32_t shift[core::kPlaceAxes];    // from position to places (core::Batch::axes)
  int32_t block_first, block_end = 0; // positions of its block; end 0: none
  int32_t stream_end;                 // one past its stream's last position
  int32_t unused = 0;
};

struct RopeArgs {
  const float* inverse_frequency; // [pairs]
  int pairs;
  float magnitude;
  bool split; // pairs (i, i + pairs), else (2i, 2i + 1)
  int span;   // positions are rounded down to multiples
  // [pairs]: the place that rotates each pair; null: the position does.
  const uint8_t* axes = nullptr;
  const TokenPlace* places = nullptr;

  RIDGE_HD int place_of(int pair, int token, int position) const {
    return (axes ? position + places[token].shift[axes[pair]] : position) / span * span;
  }
};

// Further parts of keys or values with blocks of 32 elements, in the order of the codes.
struct CachedBlocks {
  uint16_t* scales = nullptr;   // f16
  uint16_t* minima = nullptr;   // f16, or null
  uint8_t* high_bits = nullptr; // of 5-bit codes: bits k and 4 + k belong to elements 2 k and 2 k + 1 of eight
};

// A layer's cache: K of stream s, head h, position p is at ((s * heads + h) * rows + p) * k_dim; V likewise, none in
// latent attention. Ring buffers have p in row p % rows. Codes are bytes (q8_0), or four bits: nibbles k and 4 + k of
// 32 bits belong to elements 2 k and 2 k + 1 of eight.
struct Cache {
  void* k;
  void* v;
  bool k_half, v_half; // f16
  int heads, k_dim, v_dim;
  int64_t rows;
  int streams = 1;
  core::KvType k_type = core::KvType::f16, v_type = core::KvType::f16;
  CachedBlocks k_blocks = {}, v_blocks = {};
  bool ring = false;

  bool k_codes() const { return core::has_blocks(k_type); }
  bool v_codes() const { return core::has_blocks(v_type); }
  // Whether queries, or outputs, must be rotated.
  RIDGE_HD bool rotates_k() const { return core::is_rotated(k_type); }
  RIDGE_HD bool rotates_v() const { return core::is_rotated(v_type); }

  // Row 0's position when `position` was stored.
  RIDGE_HD int ring_base(int position) const {
    const int count = static_cast<int>(rows);
    return ring ? position / count * count : 0;
  }
  RIDGE_HD int row_of(int position) const { return position - ring_base(position); }
};

// Norm, rotation and storing in one launch; q, k, v may be null.
struct RopeStoreArgs {
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  const float *q_in, *k_in, *v_in; // [tokens, heads * dim]
  float *q_out, *k_out;            // k_out null: only stores
  const float *q_norm, *k_norm;    // [dim] or null
  bool normalizes_v;               // without weights; v heads as wide as the others
  float epsilon;
  int q_heads, k_heads, head_dim;
  bool rotate;
  RopeArgs rope;
  bool store;
  Cache cache;
  bool dataflow_input = false; // inputs arrive during the kernel (ptx.cuh); launch_rope_attention only
};
void launch_rope_store(const Launch&, const RopeStoreArgs&);
bool can_rope_prompts(const RopeStoreArgs&); // q, k, v to f16 caches
void launch_prompt_rope(const Launch&, const RopeStoreArgs&);

// Stores a latent row: c, optionally normed, and r, optionally rotated. Rotates the queries for r.
struct LatentStoreArgs {
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  const float *c, *r;  // [tokens, v_dim], [tokens, k_dim - v_dim]
  const float* c_norm; // [v_dim] or null
  float epsilon;
  const float* q_in; // [tokens, q_heads * (k_dim - v_dim)] or null
  float* q_out;
  int q_heads;
  bool rotate;
  RopeArgs rope;
  Cache cache;
};
void launch_latent_store(const Launch&, const LatentStoreArgs&);

// The positions that a token sees, see core::AttentionParams.
struct Window {
  int size; // 0: unlimited
  bool chunked;
  bool causal = true;                          // else also later ones: `size`, or the whole stream
  bool in_blocks = false, block_ahead = false; // a token in a block sees only the block; or all up to its end

  RIDGE_HD int first_seen(int position) const {
    if (size == 0) return 0;
    return chunked ? position / size * size : position < size ? 0 : position + 1 - size;
  }
  // One past the last visible position; `end`: of the stream.
  RIDGE_HD int end_seen(int position, int end) const {
    if (causal) return position + 1;
    return size == 0 || end - position < size ? end : position + size;
  }

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
  // Or null: f16 output, exponents 0 (means of f16 values do not overflow). launch_attention: interleaved or wide;
  // launch_prompt_attention: tiles, but not of heads of 512.
  uint16_t* out_half = nullptr;
  HalfLayout half_layout = HalfLayout::interleaved;
  Divisor half_tile;           // rows of HalfLayout::wide's tiles
  int8_t* exponents = nullptr; // [tokens]
  const int32_t* positions;
  const int32_t* streams;
  int tokens, heads;
  Divisor group;
  float scale;
  Window visible;
  const TokenPlace* places = nullptr; // for tokens that see later ones
  float soft_cap;                     // 0: none
  const float* sinks;                 // [heads] or null
  // For launch_plain_attention:
  float max_bias = 0;            // ALiBi; 0: none
  const float* biases = nullptr; // [heads][2 * reach + 1] or null
  int reach = 0;
  const int32_t* chosen = nullptr; // [tokens, most], then -1; null: all
  int most = 0;
  Cache cache;
  int tile_tokens;   // per block; above 1 only for consecutive tokens of one stream that see all before them
  int splits;        // blocks per tile (attention_splits)
  float* partial;    // attention_scratch_floats
  unsigned* tickets; // kAttentionTickets per tile and KV head, zero before and after
  Stamp* stamps = nullptr;
};
bool fast_attention(const Cache& cache, float soft_cap,
                    const ChipLimits& chip);                     // else ignores `splits`, `tile_tokens`
bool wide_attention(const Cache& cache, const ChipLimits& chip); // of these: needs launch_wide_attention
void launch_attention(const Launch&, const AttentionArgs&);
void launch_wide_attention(const Launch&, AttentionArgs);
void launch_plain_attention(const Launch&, const AttentionArgs&);

// Includes launch_rope_store's work. Every token is a tile of another stream, or `one_run`: up to kAttentionRows
// consecutive tokens of one stream. Positions, streams and caches are read before the predecessor ends: no kernel of
// the batch may write them.
bool can_fuse_rope(const ChipLimits&, const AttentionArgs&, const RopeStoreArgs&, bool one_run);
void launch_rope_attention(const Launch&, const AttentionArgs&, const RopeStoreArgs&, bool one_run);

// Consecutive tokens of one stream, where can_multiply_prompts (prompt_product.h). Few rows of heads of 512 need
// launch_attention's scratch, others none.
bool can_attend_prompts(const Cache& cache, int heads);
// What the stream of the first token has in a cache of codes, as that of stream 0 in f16; `to`: unpacked_cache_bytes.
Cache launch_unpack_cache(const Launch&, const AttentionArgs&, void* to);
void launch_prompt_attention(const Launch&, AttentionArgs);
// The same by mma (sm_80), over f16 or q8_0 caches.
bool can_attend_by_mma(const Cache& cache, int heads, const ChipLimits& chip);
void launch_mma_attention(const Launch&, const AttentionArgs&);

// All heads share keys; a key's first v_dim elements are its value.
struct LatentArgs {
  const float* q;      // [tokens, heads * v_dim]
  const float* q_rest; // [tokens, heads * (k_dim - v_dim)]
  float* out;          // [tokens, heads * v_dim]
  const int32_t* positions;
  const int32_t* streams;
  int tokens;
  Divisor heads;
  float scale;
  Cache cache;
  Stamp* stamps = nullptr;

  const int32_t* chosen = nullptr; // positions [tokens, most], then -1; null: all
  int most = 0;
  Cache entries = {};           // seen beside the window: one per `span` positions
  int span = 0;                 // 0: none
  int window = 0;               // visible positions; 0: all
  const float* sinks = nullptr; // [heads] or null

  // For launch_plain_latent_attention:
  const TokenPlace* places = nullptr;

  // For launch_latent_attention:
  bool tokens_share_tiles; // consecutive tokens of one stream
  bool lone_tokens;        // tokens of different streams
  int most_splits;         // blocks per tile
  float* partial;          // latent_scratch_floats
  // Set by the launcher:
  Divisor splits, tiles_per_token;
  int stages;
};
bool fast_latent_attention(const Cache& cache, const ChipLimits& chip);
void launch_latent_attention(const Launch&, const LatentArgs&); // sinks and a window only where `span` > 0
void launch_plain_latent_attention(const Launch&, const LatentArgs&);

struct IndexArgs {
  const float* q;       // [tokens, heads * k_dim]
  const float* weights; // [tokens, heads] or null: 1
  int32_t* chosen;      // [tokens, most]
  const int32_t* positions;
  const int32_t* streams;
  int tokens, heads, most;
  int span;  // positions per entry
  bool tail; // also positions without an entry
  bool chooses_positions;
  Cache cache;
  float* scores; // [kIndexedTokens, context]
  Stamp* stamps = nullptr;
};
void launch_index_choice(const Launch&, IndexArgs);

} // namespace ridge::kernels::cuda
