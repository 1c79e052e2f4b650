// A forward pass as data: ops (core/ops.def) over named values. models/ builds it; executors, op_cost and the window
// know nothing else of an architecture.
// A value is a row-major matrix [rows, width] of f32 or i32 with a row per token or, after `gather`, per wanted output.
// It is written once. Weights are views into the mapped file, unless assembled.
#pragma once

#include "core/ops.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::core {

using ValueId = int32_t;
using WeightId = int32_t;

enum class RopeStyle : uint8_t {
  adjacent, // pairs (0,1) (2,3) …: llama
  split,    // pairs (0,n/2) (1,n/2+1) …: qwen ("neox")
};

// Angles are position * inverse_frequency[pair], which includes linear, YaRN and Llama 3 scaling. LongRoPE has a second
// table; the configured context decides, because cached keys are already rotated.
struct RopeTable {
  std::vector<float> inverse_frequency; // [rotated dims / 2], radians per position
  float magnitude;                      // factor of sin and cos (YaRN), else 1
  RopeStyle style;
  std::vector<float> long_inverse_frequency = {}; // if the context is above `long_above`; empty: the same
  int64_t long_above = 0;
  int32_t span = 1; // positions are rounded down to multiples of this
  // Coordinate of each pair (Batch::axes); empty: the position.
  std::vector<uint8_t> axes = {};

  const std::vector<float>& frequencies(int64_t context) const {
    return long_inverse_frequency.empty() || context <= long_above ? inverse_frequency : long_inverse_frequency;
  }
};

struct Op {
  OpKind kind;
  int32_t layer;    // -1: outside the layers
  std::string name; // "blk.3.attn_q"
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

inline constexpr uint32_t kFloatType = 0;  // GGUF's F32
inline constexpr uint32_t kOrderType = 26; // GGUF's I32

// `count` matrices (experts, else 1) of [rows, cols]; a vector is one row.
struct Weight {
  std::string name;
  uint32_t type; // quant::Type, or kOrderType
  int64_t cols, rows, count;
  int64_t row_bytes;
  const std::byte* data;
  std::shared_ptr<const std::vector<std::byte>> owned = nullptr; // owns `data`, else a file does
  std::string part = {};                                         // of tensor `name`; empty: all

  // Interleaved weights: runs of `run_rows` rows, `run_stride` bytes apart. 0: contiguous.
  int64_t run_rows = 0, run_stride = 0;

  int64_t rows_per_run() const { return run_rows > 0 ? run_rows : rows * count; }
  const std::byte* row(int64_t i) const { // counted over all matrices
    const int64_t run = i / rows_per_run();
    return data + run * run_stride + (i - run * rows_per_run()) * row_bytes;
  }

  int64_t matrix_bytes() const { return rows * row_bytes; }
  int64_t total_bytes() const { return count * matrix_bytes(); }
};

// Entry p belongs to position p, or to the `span` positions from p * span on. Rewinding overwrites.
struct KvLayer {
  int64_t heads, k_dim, v_dim; // per entry: heads * (k_dim + v_dim)
  bool latent = false;         // the value is the first v_dim elements of the only key. v_dim is 0 in
                               // indices and entries of mixed_attention
  int64_t span = 1;            // above 1 only in those two

  int64_t entries(int64_t positions) const { return (positions + span - 1) / span; } // rounded up
};

// `width` f32 per stream, initially zero, of all tokens so far: only a saved state can be resumed
// (Executor::save_state).
struct StateLayer {
  std::string name;
  int64_t width;
};

inline constexpr int64_t kMaxAdapters = 64; // per Program

// A LoRA adapter; scales are per stream.
struct Adapter {
  std::string name, file;
  uint64_t fingerprint = 0;             // of the file's contents
  float scale = 1;                      // default
  std::vector<int32_t> invocation = {}; // applies after the last occurrence of these tokens; empty: everywhere
};

struct AdapterUse {
  float scale = 0;
  int32_t from = 0;

  float at(int32_t position) const { return position >= from ? scale : 0; }
};

// Adapters with an invocation have no default.
inline std::vector<AdapterUse> usual_adapters(std::span<const Adapter> adapters) {
  std::vector<AdapterUse> uses;
  for (const Adapter& adapter : adapters)
    uses.push_back({adapter.scale, adapter.invocation.empty() ? 0 : std::numeric_limits<int32_t>::max()});
  return uses;
}

struct Program {
  std::string architecture; // "llama"
  std::string label;        // "llama 8B Q4_K"
  int64_t vocab = 0;
  int64_t trained_context = 0;
  std::vector<Weight> weights;
  std::vector<ValueInfo> values;
  std::vector<RopeTable> rope_tables;
  std::vector<KvLayer> kv_layers;
  std::vector<StateLayer> states;
  std::vector<Adapter> adapters; // numbered by adapter_scale
  std::vector<Op> ops;
  ValueId logits = -1; // [outputs, vocab]; in draft heads perhaps the vocabulary's first tokens only

  // input: of a later part (split.h), or a draft head's previous hidden rows. output: of an earlier part, or embeddings
  // [outputs, width], instead of logits.
  ValueId input = -1, output = -1;
  bool embeds = false;
  // For draft heads: a row per token, in heads per wanted output. -1: none.
  ValueId hidden = -1;

  // First token of a decoder's output; earlier tokens of the stream are the encoder's (encoding/encoder_executor.h).
  // -1: no encoder.
  int32_t start_token = -1;

  // Whether batches may have axes, block_ends and rows; row_width 0: no rows.
  bool has_token_coordinates = false;
  int64_t row_width = 0;

  // Number of tokens with logits.
  int64_t choices() const { return logits >= 0 ? values[logits].width : 0; }
  ValueId result() const { return output >= 0 ? output : logits; }
  // Whether the value must stay in memory after the run.
  bool is_read_after(ValueId id) const { return id >= 0 && (id == result() || id == hidden); }
};

struct Step {
  int64_t tokens = 1; // of all streams, which have equally many
  int64_t past = 0;   // cached tokens per stream
  int64_t streams = 1;
  int64_t outputs = 1;
  double k_bytes = 2, v_bytes = 2; // per element: F16 2, F32 4, Q8_0 34/32
};

// Data moved and operations of an op, operands counted once. cost.cpp has all byte formulas.
struct Cost {
  double weight_bytes = 0, kv_bytes = 0, state_bytes = 0, activation_bytes = 0, flops = 0;
  double link_bytes = 0; // sent to other ranks

  double bytes() const { return weight_bytes + kv_bytes + state_bytes + activation_bytes; }
  Cost& operator+=(const Cost& other);
};
Cost op_cost(const Program& program, const Op& op, const Step& step);
Cost program_cost(const Program& program, const Step& step);

// Whether tokens see later ones; batches then hold whole texts from position 0.
bool sees_ahead(const Program& program);

// f32 elements per stream.
int64_t state_elements(const Program& program);

// Values with disjoint lifetimes share a slot. Gathered ones have separate slots: they have fewer rows and include the
// widest, the logits.
struct BufferPlan {
  struct Slot {
    int64_t width; // elements (4 bytes) per row
    bool gathered;
  };
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of_value;
};
BufferPlan plan_buffers(const Program& program);

// Throws std::logic_error for operands, params or shapes against ops.def and for reads before writes: bugs in models/.
void validate(const Program& program);

} // namespace ridge::core
