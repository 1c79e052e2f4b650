// A model's forward pass as data: a flat list of ops over named values.
//
// models/ builds a Program from a GGUF file; executors run it, op_cost prices it, the window draws it. Whoever adds an
// executor, a gauge or a fusion reads this description and never asks which architecture it came from.
//
// A value is a matrix [rows, width] of f32 (or i32 for expert choices), one row per token of the batch, or, after
// `gather`, one row per token whose logits are wanted. Each op writes its outputs and reads its inputs; a value is
// written once. Weights are views into the mapped model file, but for those that are
// put together when it is opened. Shapes are in elements, row-major, rows contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ridge::core {

using ValueId = int32_t;
using WeightId = int32_t;

enum class OpKind : uint8_t {
  embed,         // out[t] = W[token[t]]                              weights: table [vocab, width]
  rms_norm,      // out = x / rms(x) * w, over each `group` of x      inputs: x; weights: w [group]
  linear,        // out = W x (+ b)                                   inputs: x; weights: W [rows, cols], optional b
  rope,          // rotate pairs of each head by the position         inputs: x [heads * head_dim]
  kv_store,      // append k and v to a layer's cache                 inputs: k, v; no output
  attention,     // causal softmax(q Kᵀ · scale) V over the cache     inputs: q [heads * k_dim]; out [heads * v_dim]
  swiglu,        // out = silu(gate) * up                             inputs: gate, up
  add,           // out = a + b                                       inputs: a, b
  permute,       // out[i] = x[order[i]], for each `group` of x       inputs: x; weights: order (i32) [columns]
  gather,        // keep the rows whose logits are wanted             inputs: x
  route,         // the top experts of softmax(x) and their shares    inputs: x [experts]; outputs: ids (i32), shares
  expert_linear, // out[slot] = W[ids[slot]] x                        inputs: x [cols] or [slots * cols], ids
  expert_sum,    // out = Σ shares[slot] * x[slot]                    inputs: x [slots * width], shares
};
std::string_view name_of(OpKind kind);

struct NormParams {
  float epsilon;
  int64_t group; // elements normalized together: the whole row, or one head (q/k norms)
};

enum class RopeStyle : uint8_t {
  adjacent, // pairs (0,1) (2,3) …: llama
  split,    // pairs (0,n/2) (1,n/2+1) …: qwen ("neox")
};

// Angles are position * inverse_frequency[pair]: scaling of every kind (linear, YaRN, Llama 3 factors) is folded into
// this table when the Program is built.
struct RopeTable {
  std::vector<float> inverse_frequency; // [rotated dims / 2], radians per position
  float magnitude;                      // multiplies sin and cos (YaRN's attention factor), else 1
  RopeStyle style;
};

struct RopeParams {
  int32_t table; // index into Program::rope_tables
  int64_t heads, head_dim;
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
};

struct RouteParams {
  int64_t experts, used;
  bool normalize; // the chosen shares sum to 1
};

struct ExpertParams {
  int64_t used; // slots per token
};

using OpParams = std::variant<std::monostate, NormParams, RopeParams, PermuteParams, KvParams, AttentionParams,
                              RouteParams, ExpertParams>;

struct Op {
  OpKind kind;
  int32_t layer;    // transformer layer, -1 outside
  std::string name; // "blk.3.attn_q": for profiles and messages
  std::vector<ValueId> inputs, outputs;
  std::vector<WeightId> weights;
  OpParams params;
};

enum class ValueKind : uint8_t { f32, i32 };

struct ValueInfo {
  std::string name;
  int64_t width; // elements per row
  ValueKind kind = ValueKind::f32;
  bool gathered = false; // one row per wanted output, not per token
};

inline constexpr uint32_t kOrderType = 26; // GGUF's I32: what permute reads

// `count` matrices (experts; else 1) of [rows, cols], each row packed in row_bytes; a vector is one row.
struct Weight {
  std::string name;
  uint32_t type; // quant::Type, or kOrderType
  int64_t cols, rows, count;
  int64_t row_bytes;
  const std::byte* data;
  std::shared_ptr<const std::vector<std::byte>> owned = nullptr; // holds `data` where no file does

  int64_t matrix_bytes() const { return rows * row_bytes; }
  int64_t total_bytes() const { return count * matrix_bytes(); }
};

struct KvLayer {
  int64_t heads, k_dim, v_dim; // per token: heads * (k_dim + v_dim) elements
};

struct Program {
  std::string architecture; // "llama"
  std::string label;        // "llama 8B Q4_K": for tables
  int64_t vocab = 0;
  int64_t trained_context = 0; // tokens
  std::vector<Weight> weights;
  std::vector<ValueInfo> values;
  std::vector<RopeTable> rope_tables;
  std::vector<KvLayer> kv_layers;
  std::vector<Op> ops;
  ValueId logits = -1; // [outputs, vocab]

  // Of a part of a Program (split.h): the value that it is given instead of writing it, and the value that it ends with
  // instead of logits.
  ValueId input = -1, output = -1;
  ValueId result() const { return output >= 0 ? output : logits; }
};

// One run of a Program, as far as its cost depends on it.
struct Step {
  int64_t tokens = 1;              // rows of the batch, the same number for each stream
  int64_t past = 0;                // tokens already in each stream's cache
  int64_t streams = 1;             // independent sequences
  int64_t outputs = 1;             // tokens whose logits are wanted
  double k_bytes = 2, v_bytes = 2; // per cached element: F16 = 2, F32 = 4, Q8_0 = 34/32
};

// What one op must move and compute: each operand counted once. All byte formulas of the project are in op_cost.
struct Cost {
  double weight_bytes = 0, kv_bytes = 0, activation_bytes = 0, flops = 0;

  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
  Cost& operator+=(const Cost& other);
};
Cost op_cost(const Program& program, const Op& op, const Step& step);
Cost program_cost(const Program& program, const Step& step);

// Bytes of KV cache for `context` tokens of one stream.
double kv_cache_bytes(const Program& program, int64_t context, double k_bytes, double v_bytes);

// Where values live: values whose lifetimes do not overlap share a slot. A slot is as wide as its widest value; slots
// of gathered values are apart, because they have far fewer rows and, with the logits, the widest ones.
struct BufferPlan {
  struct Slot {
    int64_t width; // elements (4 bytes) per row
    bool gathered;
  };
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of_value; // index into slots
};
BufferPlan plan_buffers(const Program& program);

// Throws std::logic_error where a Program is malformed (an op reads a value before it is written, shapes that do not
// fit): a bug in an architecture file, not in the user's model.
void validate(const Program& program);

} // namespace ridge::core
