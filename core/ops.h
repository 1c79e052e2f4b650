// The kinds of ops that Programs are made of, and what core/ops.def says of each.
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
  routing,   // chooses experts and joins what they give
  memory,    // moves rows and columns
  recurrent, // reads and writes the state of a stream
  exchange,  // passes values between ranks
};

enum class WeightRole : uint8_t {
  matrix,  // one matrix [rows, cols]
  experts, // a matrix per expert
  vector,  // one row
  taps,    // a row of f32 per channel
  order,   // one row of i32
};

using NoParams = std::monostate;

// What becomes of a token that has a row instead of an id (Batch::rows).
enum class RowUse : uint8_t {
  as_it_is, // its first elements
  scaled,   // the same, times `scale`
  none,     // the table's row of token 0
};

inline constexpr int64_t kPlaceAxes = 4; // places of a token: time, row, column and picture

struct EmbedParams {
  float scale = 1;
  bool of_positions = false; // the table has a row per position, not per token
  RowUse rows = RowUse::as_it_is;
};

struct GivenParams {
  int64_t first = 0; // element of the row
};

// A token and those before it, up to `length` of them, stand for `heads_per_length` rows of a table for each number of
// tokens from 2 on (ngram.h). What is before `end_token`, or before the stream's first token, counts as end tokens.
struct NgramParams {
  int32_t state; // index into Program::states
  int64_t length, heads_per_length;
  int32_t end_token;

  int64_t heads() const { return (length - 1) * heads_per_length; }
};

inline constexpr int64_t kMostNgram = 16;

struct NormParams {
  float epsilon;
  int64_t group;        // elements normalized together: the whole row, or one head (q/k norms)
  bool centered = true; // of layer_norm: the mean is taken off
};

struct RopeParams {
  int32_t table; // index into Program::rope_tables
  int64_t heads, head_dim;
};

enum class Activation : uint8_t {
  identity,     // alpha * x
  silu,         // x * sigmoid(alpha * x); with alpha 1.702 also known as quick GELU
  sigmoid,      // 1 / (1 + exp(-alpha * x))
  relu,         // max(x, 0)
  relu_squared, // max(x, 0)²
  gelu,         // x * Φ(x) by its approximation with tanh
  gelu_erf,     // x * Φ(x)
  soft_cap,     // alpha * tanh(x / alpha)
  root_sigmoid, // the sigmoid of the root of |x|, of kLeastRooted at least, with the sign of x
  xielu,        // above 0: alpha * x² + beta * x; else: alpha_negative * (exp(min(x, epsilon)) - 1 - x) + beta * x
  softplus,     // log(1 + exp(x))
};

inline constexpr float kLeastRooted = 1e-6f; // of root_sigmoid

// With a limit, what goes into activate is kept from -limit to limit. In glu, x is kept so, and the gate at most at the
// limit; then x + shift is multiplied. gpt-oss: {silu, 1.702, 7, false, 1}.
struct ActivationParams {
  Activation kind = Activation::identity;
  float alpha = 1;
  float limit = 0;               // 0: none
  bool limits_activated = false; // the gate's limit is that of its activation, else of what goes into it
  float shift = 0;
  float beta = 0, alpha_negative = 0, epsilon = 0; // of xielu

  bool operator==(const ActivationParams&) const = default;
};

// Heads of q grow slowly with the position: by 1 + scale * log(1 + floor((position + offset) / step)).
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
  int64_t group; // elements of x that the order picks from: the whole row, or one slot of an expert's input
};

struct KvParams {
  int32_t layer; // index into Program::kv_layers
};

struct AttentionParams {
  int32_t layer; // index into Program::kv_layers
  int64_t heads;
  float scale;
  int64_t window = 0;   // positions that a token sees, its own the last of them; 0: all
  bool chunked = false; // the window does not slide: a token sees those of its own `window` positions up to itself
  float soft_cap = 0;   // scores are soft_cap * tanh(score / soft_cap); 0: as they are
  float max_bias = 0;   // ALiBi (alibi_slope): a score is less by the slope of its head per position; 0: none
  // A token sees no later ones. Else it sees all of its stream in the batch, or with a window as many from its own
  // position on as up to it.
  bool causal = true;
  int64_t reach = 0; // the weight is a bias of scores by distance, up to this many positions back and ahead; 0: sinks
  bool block_ahead = true; // with a causal mask: a token sees all of its block of the batch, also what is behind it
  bool in_blocks = false;  // a token sees its block of the batch (Batch::block_ends), of `window` tokens at most

  // The first position that the token at `position` sees.
  int64_t first_seen(int64_t position) const {
    if (window == 0) return 0;
    return chunked ? position / window * window : position < window ? 0 : position + 1 - window;
  }
  // The position behind the last one that it sees, where its stream ends at `end`.
  int64_t end_seen(int64_t position, int64_t end) const {
    if (causal) return position + 1;
    return window == 0 || end - position < window ? end : position + window;
  }
  // Where in a head's row of that bias its number for a score is: of the token at `position`, for the one at `seen`.
  int64_t bias_at(int64_t position, int64_t seen) const {
    const int64_t ahead = seen - position;
    return reach + (ahead < -reach ? -reach : ahead > reach ? reach : ahead);
  }
};

// ALiBi's slope of head `head` of `heads`. The slopes of a power of two of heads are powers of one base, down to
// 2^-max_bias; those of further heads lie between them.
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
  bool tail = false; // behind the chosen positions, those that no entry has yet, where entries have several
  bool even = false; // every head has the weight 1; the second input is q again and not read
  // Each position has its entry's score and is chosen for itself, those of the tail first, so that always `most` are:
  // of an entry maybe not all. Which of equal ones is what keep_best (best.h) leaves; they come in any order.
  bool fills = false;
};

inline constexpr int64_t kMostExperts = 1024; // of a layer

// With groups, experts are chosen among those of the `groups_used` best groups. A group is as good as its two best
// experts together.
struct RouteParams {
  int64_t experts, used;
  bool normalize; // the chosen shares sum to 1
  Gate gate = Gate::softmax;
  float scale = 1; // of the shares, at last
  int64_t groups = 1, groups_used = 1;
  bool by_score = false;   // experts and groups are chosen by score, before the gate
  bool by_sigmoid = false; // they are chosen by the sigmoid of scores, whatever the gate
  // So many neighbours in the list of experts have one matrix: an id is the expert's number divided by this, and its
  // share is that of the expert whose number the id is (GroveMoE).
  int64_t share_matrix = 1;
};

// M is made of y by a softmax of each row (from), to which epsilon is added; then columns and rows are divided by their
// sums + epsilon in turns, columns `iterations` times, rows once less.
struct HyperParams {
  int64_t count;
  int64_t iterations; // 0: there is no M
  float epsilon;
  float magnitude = 2, out_epsilon = 0; // of the gates for what a block gives
};

inline constexpr int64_t kMostHyperStreams = 16;

struct FoldParams {
  float scale = 1;
};

struct ExpertParams {
  int64_t used; // slots per token
};

// Which of the ranks a Program is for, and where in a row its part lies.
struct RankParams {
  int32_t ranks = 1, rank = 0;
  int64_t first = 0;
};

// The state of the recurrent ops: an index into Program::states.
struct ConvParams {
  int32_t state;
  int64_t kernel; // taps
  Activation activation;
  int64_t ahead = 0; // of the taps, so many are for later tokens, zero behind the last one: batches have whole texts
};

struct PoolParams {
  int32_t state;
  int64_t kernel; // tokens
  // x and gates are twice as wide as what comes out: the first halves are those of the older half of the tokens, the
  // others those of the newer half. Before the first token there is nothing, rather than zeros.
  bool overlaps = false;
};

// Attention to the last positions in one cache, and to what stands for positions in another one.
struct MixedParams {
  int32_t layer, entries; // indices into Program::kv_layers
  int64_t heads;
  float scale;
  int64_t window; // positions of `layer` that a token sees

  int64_t first_seen(int64_t position) const { return position < window ? 0 : position + 1 - window; }
};

struct DeltaParams {
  int32_t state;
  int64_t k_heads, v_heads, dim;        // q has as many heads as k
  float epsilon;                        // under the root of the norms of q and k
  bool neighbors_share;                 // heads of v that use one of k: those next to each other, else every k_heads-th
  int64_t q_at = 0, k_at = 0, v_at = 0; // first columns within the rows of the inputs
  float least = 0; // not 0: the logarithm of a factor of S is least * sigmoid(-a * (alpha + dt)), and so above it

  int64_t k_head(int64_t v_head) const { return neighbors_share ? v_head / (v_heads / k_heads) : v_head % k_heads; }
};

struct ScanParams {
  int32_t state;
  int64_t heads, head_dim, groups, states; // a group of b and c is for heads next to each other
  int64_t x_at, b_at, c_at;                // first columns within the rows of the inputs
};

struct WkvParams {
  int32_t state;
  int64_t heads, dim; // at most kMostWkvDim
};

inline constexpr int64_t kMostWkvDim = 1024;

using OpParams = std::variant<NoParams, EmbedParams, NormParams, RopeParams, PositionScaleParams, ActivationParams,
                              AddParams, GivenParams, ClampParams, PermuteParams, KvParams, AttentionParams,
                              IndexParams, RouteParams, HyperParams, FoldParams, ExpertParams, RankParams, NgramParams,
                              ConvParams, PoolParams, DeltaParams, ScanParams, WkvParams, MixedParams>;

// The index into Program::kv_layers in an op's params, null for ops without a cache, and that of ops with two. The only
// place that knows which params name one.
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

// The same for the index into Program::states.
inline int32_t* state_layer(OpParams& params) {
  if (auto* ngram = std::get_if<NgramParams>(&params)) return &ngram->state;
  if (auto* conv = std::get_if<ConvParams>(&params)) return &conv->state;
  if (auto* pool = std::get_if<PoolParams>(&params)) return &pool->state;
  if (auto* delta = std::get_if<DeltaParams>(&params)) return &delta->state;
  if (auto* scan = std::get_if<ScanParams>(&params)) return &scan->state;
  if (auto* wkv = std::get_if<WkvParams>(&params)) return &wkv->state;
  return nullptr;
}

// A row of ops.def.
struct OpInfo {
  struct Weights {
    std::array<WeightRole, 3> roles;
    size_t count; // of roles
  };
  std::string_view name;
  size_t inputs, outputs, required_weights;
  Weights weights;
  size_t params; // index of the alternative of OpParams
  OpClass op_class;
  double flops; // per element of the first input
};
const OpInfo& info_of(OpKind kind);

inline std::string_view name_of(OpKind kind) { return info_of(kind).name; }
inline OpClass class_of(OpKind kind) { return info_of(kind).op_class; }

} // namespace ridge::core
