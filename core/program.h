// A model's forward pass as data: a flat list of ops over named values. core/ops.def lists the kinds of ops.
//
// models/ builds a Program from a GGUF file; executors run it, op_cost prices it, the window draws it. An executor, a
// gauge or a fusion needs only this description and never asks which architecture it came from.
//
// A value is a matrix [rows, width] of f32 (or i32 for expert choices), one row per token of the batch, or, after
// `gather`, one row per token whose logits are wanted. Each op writes its outputs and reads its inputs; a value is
// written once. Weights are views into the mapped model file, except those that are assembled when the file is opened.
// Shapes are in elements, row-major, rows contiguous.
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

// Angles are position * inverse_frequency[pair]: scaling of every kind (linear, YaRN, Llama 3 factors) is folded into
// this table when the Program is built. A model may have other frequencies for long contexts (LongRoPE); which ones
// count is settled with the executor's context, because keys in the cache are rotated already.
struct RopeTable {
  std::vector<float> inverse_frequency; // [rotated dims / 2], radians per position
  float magnitude;                      // multiplies sin and cos (YaRN's attention factor), else 1
  RopeStyle style;
  std::vector<float> long_inverse_frequency = {}; // where the context is above `long_above`; empty: the same
  int64_t long_above = 0;
  int32_t span = 1; // a position counts as the first of its `span`, as of an index whose entries have several
  // Which of a token's places turns each pair, where a batch has them (Batch::axes); empty: its position.
  std::vector<uint8_t> axes = {};

  const std::vector<float>& frequencies(int64_t context) const {
    return long_inverse_frequency.empty() || context <= long_above ? inverse_frequency : long_inverse_frequency;
  }
};

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

inline constexpr uint32_t kFloatType = 0;  // GGUF's F32: what ops read in place
inline constexpr uint32_t kOrderType = 26; // GGUF's I32: what permute reads

// `count` matrices (experts; else 1) of [rows, cols], each row packed in row_bytes; a vector is one row.
struct Weight {
  std::string name;
  uint32_t type; // quant::Type, or kOrderType
  int64_t cols, rows, count;
  int64_t row_bytes;
  const std::byte* data;
  std::shared_ptr<const std::vector<std::byte>> owned = nullptr; // holds `data` where no file does
  std::string part = {};                                         // of the tensor `name`, where it is not all of it

  // A weight may share its tensor with others (the gates between the heads of q). Its rows then lie in runs of
  // `run_rows`, which start `run_stride` bytes apart. 0: all rows lie one behind the other.
  int64_t run_rows = 0, run_stride = 0;

  int64_t rows_per_run() const { return run_rows > 0 ? run_rows : rows * count; }
  const std::byte* row(int64_t i) const { // of all matrices
    const int64_t run = i / rows_per_run();
    return data + run * run_stride + (i - run * rows_per_run()) * row_bytes;
  }

  int64_t matrix_bytes() const { return rows * row_bytes; }
  int64_t total_bytes() const { return count * matrix_bytes(); }
};

// Keys and values of a layer. Entry p of a stream belongs to position p, or to `span` positions from p * span on, so
// going back means overwriting what follows.
struct KvLayer {
  int64_t heads, k_dim, v_dim; // per token: heads * (k_dim + v_dim) elements
  bool latent = false;         // one head, whose value is the first v_dim elements of its key: k_dim elements. An
                               // index, and entries of mixed_attention, have a v_dim of 0
  int64_t span = 1;            // positions of an entry; more than one only of those

  int64_t entries(int64_t positions) const { return (positions + span - 1) / span; } // with one that is not whole
};

// Recurrent state of a layer: `width` elements of f32 per stream, zero before the first token. It has no positions: it
// is that of all tokens so far, so a stream goes back only to where its state was saved (Executor::save_state).
struct StateLayer {
  std::string name;
  int64_t width;
};

inline constexpr int64_t kMostAdapters = 64; // of a Program

// A low-rank adapter (LoRA): matrices beside a model's own, whose product is added to what those give. A stream of an
// executor says how much of each counts for its tokens.
struct Adapter {
  std::string name, file;
  uint64_t fingerprint = 0; // of what is in the file
  float scale = 1;          // where no request says more
  std::vector<int32_t> invocation =
      {}; // it counts from the last place on where a text has these tokens; empty: for all
};

// How much of an adapter counts for a stream: from a position on so much, before it nothing.
struct AdapterUse {
  float scale = 0;
  int32_t from = 0;

  float at(int32_t position) const { return position >= from ? scale : 0; }
};

// What counts of each adapter where no request says more. Those that wait for an invocation count nowhere.
inline std::vector<AdapterUse> usual_adapters(std::span<const Adapter> adapters) {
  std::vector<AdapterUse> uses;
  for (const Adapter& adapter : adapters)
    uses.push_back({adapter.scale, adapter.invocation.empty() ? 0 : std::numeric_limits<int32_t>::max()});
  return uses;
}

struct Program {
  std::string architecture; // "llama"
  std::string label;        // "llama 8B Q4_K": for tables
  int64_t vocab = 0;
  int64_t trained_context = 0; // tokens
  std::vector<Weight> weights;
  std::vector<ValueInfo> values;
  std::vector<RopeTable> rope_tables;
  std::vector<KvLayer> kv_layers;
  std::vector<StateLayer> states;
  std::vector<Adapter> adapters; // whose numbers adapter_scale has
  std::vector<Op> ops;
  ValueId logits = -1; // [outputs, vocab]; of a draft head, perhaps of the vocabulary's first tokens only

  // A part of a Program (split.h) has the value that it is given instead of computing it, and the value that it ends
  // with instead of logits. A model that embeds texts ends with the hidden state [outputs, width], too. A draft head is
  // given the hidden row of the token before each.
  ValueId input = -1, output = -1;
  bool embeds = false;
  // What draft heads take, kept beside the logits. A model that drafts has a row per token, a head itself one per
  // wanted output. -1: nothing is kept.
  ValueId hidden = -1;

  // A decoder's: the token that begins what it writes. The tokens of a stream before it are the text that its encoder
  // reads, a Program of its own (encoding/encoder_executor.h). -1: there is no encoder.
  int32_t start_token = -1;

  // A batch may say where tokens are beside their positions, as in a picture (Batch::axes, Batch::block_ends), and
  // give tokens a row of so many elements instead of an id (Batch::rows); 0: none.
  bool has_places = false;
  int64_t row_width = 0;

  // How many tokens have logits.
  int64_t choices() const { return logits >= 0 ? values[logits].width : 0; }
  ValueId result() const { return output >= 0 ? output : logits; }
  // Whether the caller reads the value after the run, so that it has to be in memory then.
  bool is_read_after(ValueId id) const { return id >= 0 && (id == result() || id == hidden); }
};

// One run of a Program, as far as its cost depends on it.
struct Step {
  int64_t tokens = 1;              // rows of the batch, the same number for each stream
  int64_t past = 0;                // tokens already in each stream's cache
  int64_t streams = 1;             // independent sequences
  int64_t outputs = 1;             // tokens whose logits are wanted
  double k_bytes = 2, v_bytes = 2; // per cached element: F16 = 2, F32 = 4, Q8_0 = 34/32
};

// What one op must move and compute: each operand counted once. All byte formulas of the project are in cost.cpp.
struct Cost {
  double weight_bytes = 0, kv_bytes = 0, state_bytes = 0, activation_bytes = 0, flops = 0;
  double link_bytes = 0; // that go to other ranks, beside those in memory

  double bytes() const { return weight_bytes + kv_bytes + state_bytes + activation_bytes; }
  Cost& operator+=(const Cost& other);
};
Cost op_cost(const Program& program, const Op& op, const Step& step);
Cost program_cost(const Program& program, const Step& step);

// Whether tokens see later ones: then a batch has whole texts, from position 0 on.
bool sees_ahead(const Program& program);

// Elements (f32) of recurrent state of one stream.
int64_t state_elements(const Program& program);

// Where values live: values whose lifetimes do not overlap share a slot. A slot is as wide as its widest value.
// Gathered values have slots of their own, because they have far fewer rows and include the widest value, the logits.
struct BufferPlan {
  struct Slot {
    int64_t width; // elements (4 bytes) per row
    bool gathered;
  };
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of_value; // index into slots
};
BufferPlan plan_buffers(const Program& program);

// Throws std::logic_error if a Program is malformed: an op has operands or params other than its row of ops.def says,
// reads a value before it is written, or has shapes that do not fit. This is a bug of an architecture, not of a file.
void validate(const Program& program);

} // namespace ridge::core
