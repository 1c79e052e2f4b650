// Describes how an architecture's Hugging Face checkpoints differ from the common layout
// (convert/import/config/names.cpp, convert/import/config/config.cpp). `ridge convert` reads this data.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace ridge::models {

enum class Only : uint8_t { always, dense, experts };

// Which rows of a checkpoint matrix, or elements of a vector, form the GGUF tensor, in order.
enum class Rows : uint8_t {
  all,
  rope_pairs,    // checkpoints pair i with i + d/2, GGUF with its neighbour
  first_half,    // "gate" of a matrix of gate and up
  second_half,   // "up"
  even,          // "gate" of interleaved gate and up
  odd,           // "up"
  value_heads,   // from value heads grouped by key head to interleaved key heads
  mixed_heads,   // likewise for rows after those of q and k
  grouped_mixed, // q, k and v of a matrix that groups q, k, v and z by key head
  grouped_z,
  mla_keys,    // key part of each head, transposed: a matrix per head
  mla_values,  // value part of each head: a matrix per head
  grouped_qkv, // all q, all k, all v of a matrix that groups them by KV head
  grouped_q,   // its q, permuted like rope_pairs
  grouped_k,   // k, likewise
  grouped_v,
  output_groups, // a matrix for each of o_groups
  positions,     // RoBERTa's tables start with padding
  index_queries, // of a matrix of an indexer's queries and its key
  index_key,
};

enum class Change : uint8_t {
  none,
  plus_one,           // norms stored as w - 1
  negative_exp,       // stored as log(-a)
  value_head_columns, // see Rows::value_heads
  ternary,            // BitNet: to -m, 0 and m; m: mean of the matrix's magnitudes. Packed weights are so already
  ssm_multipliers,    // config.json's factors for z, x, b, c, dt
};

// A vector's shape in GGUF.
enum class As : uint8_t {
  vector,
  column,
  by_group, // {n / ssm groups, ssm groups}
  flat,     // {n}, from any shape
  parts,    // {n, 1, 1, m}, from m tensors
  integers, // I32, from I64 or I32
  stacked,  // a matrix of the rows of n matrices, whose numbers take the place of "{}"
};

struct Making {
  Rows rows = Rows::all;
  Change change = Change::none;
  std::string_view scale = {}; // factor, as a FieldRule: "attention_in_multiplier * key_multiplier"
  As as = As::vector;
  bool transposed = false; // [inputs, outputs]
  Only only = Only::always;
};

// A GGUF tensor and its source. Among rules with the same `to`, the first whose `from` exists applies.
struct TensorRule {
  // Relative to the model or layer: a module (with .weight and .bias) or a full tensor name. "{}" is an expert's
  // number; three-dimensional tensors have experts first. For As::parts, braces list optional parts: "x_{r,w}" is x_r,
  // then x_w. Empty: a vector of ones times Making::scale, as long as a head.
  std::string_view from;
  // Below "blk.N.", or, after a slash, of the whole model: a module without suffix, or a full tensor name.
  std::string_view to;
  Making how = {};
};

enum class Kind : uint8_t {
  count,
  real,
  flag,
  counts,
  flags, // likewise; "a = word" tests each entry
  reals, // null: 0
};

// A GGUF hyperparameter and its source in config.json.
struct FieldRule {
  std::string_view key; // "diffusion.*" keys are absolute
  Kind kind;
  // "a | b": the first present. "a | b * c": the product of that and c. "a + b": sum. "a.b": a field of an object. "a =
  // word / other" or "a = 8": 1 or 0, for arrays the number of matches. "a ^ 0.5": power. Arrays count by length;
  // numbers are literal.
  std::string_view fields;
  std::optional<double> absent = {}; // value for a missing field; unset: the key is not written
  Only only = Only::always;
};

// A field with one supported value (true: 1).
struct FixedField {
  std::string_view field;
  double value, absent; // `absent`: value if missing
  Only only = Only::always;
};
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity(); // matches Infinity or a missing field

// A hyperparameter that the checkpoint stores in tensors: one element in each layer, or, as `list`, the integers that
// one layer has.
struct NumberRule {
  std::string_view from;
  std::string_view key;
  bool list = false;
};

// Keys that are written from config.json's list of layer kinds.
struct LayerKeys {
  bool recurrent_layers = false; // attention.recurrent_layers
  bool kv_heads = false;         // attention.head_count_kv: 0 without attention
  bool ffn_widths = false;       // feed_forward_length: 0 without feed-forward
  bool windows = false;          // attention.sliding_window and its pattern
  bool drafts_slide = false;     // draft heads have a window
  bool rope_pattern = false;     // attention.rope_pattern: rope base is not 0
  bool compress_ratios = false;  // attention.compress_ratios
  bool block_sizes = false;      // attention.compress_ratios: indexer_compress_ratio in attention layers
  bool ngrams = false;           // ple.*
  // attention.head_count and attention.head_count_kv of layers with a window, if other than the rest's: FieldRule
  // expressions, the first that exists.
  std::array<std::string_view, 2> sliding_heads = {}, sliding_kv_heads = {};
  // Gemma 4: layers without a window have other heads; the last layers reuse caches and may have a doubled feed-forward
  // width.
  bool two_heads = false;
};

struct Checkpoint {
  const Checkpoint* base = nullptr;         // fallback for tensors, fields and fixed
  std::span<const TensorRule> tensors = {}; // precede the common ones
  std::span<const FieldRule> fields = {};   // precede the common ones
  std::span<const FixedField> fixed = {};
  std::span<const NumberRule> numbers = {};
  // A second stack of decoder_block_count layers: "decoder.block.N." becomes "dec.blk.N.".
  std::span<const TensorRule> decoder = {};
  // Draft heads: rules of a head's own tensors, relative to its layer or to "mtp.". Empty: heads are left out.
  std::span<const TensorRule> drafts = {};
  LayerKeys layers = {};
  bool attention = true;
  bool head = true;                      // has an output matrix, possibly the embedding table
  bool own_head = false;                 // an existing output matrix is used, whatever tie_word_embeddings says
  std::string_view kv_heads = {};        // a FieldRule, if named differently
  std::string_view stack = {};           // prefix of "blk.N."
  bool slides_by_default = false;        // sliding_window applies even without use_sliding_window
  double rotated = 1;                    // default partial_rotary_factor
  bool half_rope = false;                // layers without a window rotate half of rope.dimension_count
  std::array<uint16_t, 4> sections = {}; // default mrope_section
  std::string_view activation = "silu";  // required, if config.json names one; "|" separates alternatives
};

} // namespace ridge::models
