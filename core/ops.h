// Kinds of ops and their params (core/ops.def).
#pragma once

#include "core/gate.h"
#include "core/host_device.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace ridge::core {

enum class OpKind : uint8_t {
#define RIDGE_OP(name, ...) name,
#include "core/ops.def"
#undef RIDGE_OP
};

enum class OpClass : uint8_t {
  matrix,    // products with weights
  attention, // reads a cache
  cache,     // writes a cache
  vector,    // arithmetic on activations
  routing,   // chooses and combines experts
  memory,    // moves rows and columns
  recurrent, // updates a stream's state
  exchange,  // between ranks
};

enum class WeightRole : uint8_t {
  matrix,  // [rows, cols]
  experts, // a matrix per expert
  vector,  // one row
  taps,    // a row of f32 per channel
  order,   // one row of i32
};

using NoParams = std::monostate;

// Embedding of tokens with rows (Batch::rows).
enum class RowUse : uint8_t {
  unscaled, // the row's first elements
  scaled,   // the same times `scale`
  none,     // the table's row 0
};

inline constexpr int64_t kPlaceAxes = 4; // time, row, column, picture

struct EmbedParams {
  float scale = 1;
  bool of_positions = false; // a row per position, not per token
  RowUse rows = RowUse::unscaled;
};

struct GivenParams {
  int64_t first = 0; // element of the row
};

// Each n-gram of the last 2 to `length` tokens selects `heads_per_length` table rows (ngram.h). Tokens before an
// `end_token`, or before the stream, count as end tokens.
struct NgramParams {
  int32_t state; // index into Program::states
  int64_t length, heads_per_length;
  int32_t end_token;

  int64_t heads() const { return (length - 1) * heads_per_length; }
};

inline constexpr int64_t kMaxNgram = 16;

struct NormParams {
  float epsilon;
  int64_t group;        // the row, or one head
  bool centered = true; // layer_norm subtracts the mean
};

struct RopeParams {
  int32_t table; // index into Program::rope_tables
  int64_t heads, head_dim;
};

enum class Activation : uint8_t {
  identity, // alpha * x
  silu,     // x * sigmoid(alpha * x); alpha 1.702 is quick GELU
  sigmoid,  // 1 / (1 + exp(-alpha * x))
  relu,
  relu_squared, // max(x, 0)²
  gelu,         // x * Φ(x), tanh approximation
  gelu_erf,     // x * Φ(x)
  soft_cap,     // alpha * tanh(x / alpha)
  root_sigmoid, // sign(x) * sigmoid(sqrt(max(|x|, kMinRooted)))
  xielu,        // above 0: alpha * x² + beta * x; else: alpha_negative * (exp(min(x, epsilon)) - 1 - x) + beta * x
  softplus,     // log(1 + exp(x))
};

inline constexpr float kMinRooted = 1e-6f;

// `limit` clamps the input of activate to ±limit; in glu it clamps x likewise and the gate from above. glu multiplies
// by x + shift. gpt-oss: {silu, 1.702, 7, false, 1}.
struct ActivationParams {
  Activation kind = Activation::identity;
  float alpha = 1;
  float limit = 0;               // 0: none
  bool limits_activated = false; // clamp the gate after its activation
  float shift = 0;
  float beta = 0, alpha_negative = 0, epsilon = 0; // of xielu

  bool operator==(const ActivationParams&) const = default;
};

// Scales q by 1 + scale * log(1 + floor((position + offset) / step)).
struct PositionScaleParams {
  float scale;
  int64_t step, offset = 0;
};

struct ClampParams {
  float low, high;
};

struct AddParams {
  float scale = 1; // of the second operand
};

struct PermuteParams {
  int64_t group; // the row, or one slot
};

struct KvParams {
  int32_t layer; // index into Program::kv_layers
};

struct AttentionParams {
  int32_t layer; // index into Program::kv_layers
  int64_t heads;
  float scale;
  int64_t window = 0;   // including the token itself; 0: all
  bool chunked = false; // windows do not slide, but start at multiples of `window`
  float soft_cap = 0;   // soft_cap * tanh(score / soft_cap); 0: none
  float max_bias = 0;   // ALiBi (alibi_slope); 0: none
  // false: a token sees all of its stream in the batch, or a symmetric window
  bool causal = true;
  int64_t reach = 0;       // largest distance of the score biases in the weight; 0: the weight has sinks
  bool block_ahead = true; // a causal token still sees all of its block (Batch::block_ends)
  bool in_blocks = false;  // a token sees only its block, of at most `window` tokens

  int64_t first_seen(int64_t position) const {
    if (window == 0) return 0;
    return chunked ? position / window * window : position < window ? 0 : position + 1 - window;
  }
  // Exclusive end of the positions seen, in a stream that ends at `end`.
  int64_t end_seen(int64_t position, int64_t end) const {
    if (causal) return position + 1;
    return window == 0 || end - position < window ? end : position + window;
  }
  // Index in a head's row of biases.
  int64_t bias_at(int64_t position, int64_t seen) const {
    const int64_t ahead = seen - position;
    return reach + (ahead < -reach ? -reach : ahead > reach ? reach : ahead);
  }
};

// Slopes are powers of one base down to 2^-max_bias for a power of two of heads; further heads lie in between.
RIDGE_HD float alibi_slope(float max_bias, int heads, int head) {
  int even = 1;
  while (2 * even <= heads) even *= 2;
  const float step = max_bias / static_cast<float>(even);
  return exp2f(head < even ? -step * static_cast<float>(head + 1)
                           : -step / 2 * static_cast<float>(2 * (head - even) + 1));
}

struct IndexParams {
  int32_t layer = 0; // index into Program::kv_layers
  int64_t heads;
  bool tail = false;       // also positions after the last whole entry
  bool unweighted = false; // the second input is unused
  // Chooses exactly `most` single positions: the tail first, then by their entries' scores. Ties are as in keep_best
  // (best.h); the order is arbitrary.
  bool chooses_positions = false;
};

inline constexpr int64_t kMaxExperts = 1024; // per layer

// Groups are ranked by their two best experts together.
struct RouteParams {
  int64_t experts, used;
  bool normalize; // to a sum of 1
  Gate gate = Gate::softmax;
  float scale = 1; // of the final shares
  int64_t groups = 1, groups_used = 1;
  bool by_score = false;   // choose before the gate
  bool by_sigmoid = false; // choose by the sigmoid of scores
  // GroveMoE: number of adjacent experts that share a matrix. The id is the expert's number divided by this; the share
  // is that of expert number id.
  int64_t share_matrix = 1;
  // Phi-3.5-MoE: an expert's share is its softmax among itself and the worse ones whose score is less by at most this
  // part of the larger magnitude. Chosen by score; 0: the softmax is over all experts.
  float nearness = 0;
};

// M is the softmax of y's rows (from) plus epsilon; columns and rows are divided by their sums + epsilon in turn,
// columns `iterations` times, rows once less.
struct HyperParams {
  int64_t count;
  int64_t iterations; // 0: no M
  float epsilon;
  float magnitude = 2, out_epsilon = 0; // of the block's gates
};

inline constexpr int64_t kMaxHyperStreams = 16;

struct FoldParams {
  float scale = 1;
};

struct ExpertParams {
  int64_t used; // slots per token
};

// `first` is the column of this rank's part.
struct RankParams {
  int32_t ranks = 1, rank = 0;
  int64_t first = 0;
};

// `state`, also below: index into Program::states
struct ConvParams {
  int32_t state;
  int64_t kernel; // taps
  Activation activation;
  int64_t ahead = 0; // later taps, zero past the end; batches hold whole texts
};

struct PoolParams {
  int32_t state;
  int64_t kernel; // tokens
  // x and gates are twice as wide as the output: the first halves are for the older tokens, the second for the newer.
  // Missing tokens are excluded, not zero.
  bool overlaps = false;
};

// Attention over the last positions of one cache and entries of another.
struct MixedParams {
  int32_t layer, entries; // indices into Program::kv_layers
  int64_t heads;
  float scale;
  int64_t window; // positions of `layer` seen

  int64_t first_seen(int64_t position) const { return position < window ? 0 : position + 1 - window; }
};

struct DeltaParams {
  int32_t state;
  int64_t k_heads, v_heads, dim;        // heads of q: k_heads
  float epsilon;                        // of the norms of q and k
  bool neighbors_share;                 // v heads of a k head are adjacent, else every k_heads-th
  int64_t q_at = 0, k_at = 0, v_at = 0; // first columns
  float least = 0;                      // not 0: log decay = least * sigmoid(-a * (alpha + dt))

  int64_t k_head(int64_t v_head) const { return neighbors_share ? v_head / (v_heads / k_heads) : v_head % k_heads; }
};

struct ScanParams {
  int32_t state;
  int64_t heads, head_dim, groups, states; // adjacent heads share b and c
  int64_t x_at, b_at, c_at;                // first columns
};

struct WkvParams {
  int32_t state;
  int64_t heads, dim; // at most kMaxWkvDim
};

inline constexpr int64_t kMaxWkvDim = 1024;

using OpParams = std::variant<NoParams, EmbedParams, NormParams, RopeParams, PositionScaleParams, ActivationParams,
                              AddParams, GivenParams, ClampParams, PermuteParams, KvParams, AttentionParams,
                              IndexParams, RouteParams, HyperParams, FoldParams, ExpertParams, RankParams, NgramParams,
                              ConvParams, PoolParams, DeltaParams, ScanParams, WkvParams, MixedParams>;

// Indices into Program::kv_layers, null if none. Only these functions know where params have them.
inline int32_t* cache_layer(OpParams& params) {
  if (auto* store = std::get_if<KvParams>(&params)) return &store->layer;
  if (auto* attention = std::get_if<AttentionParams>(&params)) return &attention->layer;
  if (auto* index = std::get_if<IndexParams>(&params)) return &index->layer;
  if (auto* mixed = std::get_if<MixedParams>(&params)) return &mixed->layer;
  return nullptr;
}
inline int32_t* second_cache_layer(OpParams& params) {
  auto* mixed = std::get_if<MixedParams>(&params);
  return mixed ? &mixed->entries : nullptr;
}

// Likewise for Program::states.
inline int32_t* state_layer(OpParams& params) {
  if (auto* ngram = std::get_if<NgramParams>(&params)) return &ngram->state;
  if (auto* conv = std::get_if<ConvParams>(&params)) return &conv->state;
  if (auto* pool = std::get_if<PoolParams>(&params)) return &pool->state;
  if (auto* delta = std::get_if<DeltaParams>(&params)) return &delta->state;
  if (auto* scan = std::get_if<ScanParams>(&params)) return &scan->state;
  if (auto* wkv = std::get_if<WkvParams>(&params)) return &wkv->state;
  return nullptr;
}

struct OpInfo {
  struct Weights {
    std::array<WeightRole, 3> roles;
    size_t count;
  };
  std::string_view name;
  size_t inputs, outputs, required_weights;
  Weights weights;
  size_t params; // index in OpParams
  OpClass op_class;
  double flops; // per input element
};
const OpInfo& info_of(OpKind kind);

inline std::string_view name_of(OpKind kind) { return info_of(kind).name; }
inline OpClass class_of(OpKind kind) { return info_of(kind).op_class; }

} // namespace ridge::core
