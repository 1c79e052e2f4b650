// How the Hugging Face checkpoints of an architecture differ from what most have in common. An architecture's file says
// it in these words, as data; `ridge convert` reads them. The names and hyperparameters that most share are in
// convert/import/names.cpp and convert/import/config.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace ridge::models {

// Models that a row of a table is for.
enum class Only : uint8_t { always, dense, experts };

// The rows of a checkpoint's matrix, or the elements of a vector, that a GGUF tensor has, in their order.
enum class Rows : uint8_t {
  all,
  rope_pairs,    // of each head: a checkpoint pairs element i with i + d/2, and GGUF with its neighbour
  first_half,    // "gate" of a matrix that holds gate and up
  second_half,   // "up"
  even,          // "gate" where rows of gate and up take turns
  odd,           // "up"
  value_heads,   // value heads of a key head are neighbours in a checkpoint; in GGUF the key heads take turns
  mixed_heads,   // the same for the rows behind those of q and k
  grouped_mixed, // q, k and v of a matrix that holds q, k, v and z of each key head
  grouped_z,     // its z
  mla_keys,      // of each head the part that makes keys, transposed: a matrix per head
  mla_values,    // of each head the part that makes values: a matrix per head
  grouped_qkv,   // all q, then all k and all v, of a matrix that holds for each key-value head its q, k and v
  grouped_q,     // of such a matrix q, as rope_pairs wants it
  grouped_k,     // k, the same
  grouped_v,
  positions, // of a table of learned positions: RoBERTa's begins with those of padding
};

enum class Change : uint8_t {
  none,
  plus_one,           // norms whose checkpoint holds w - 1
  negative_exp,       // the checkpoint holds log(-a)
  value_head_columns, // columns in the order of Rows::value_heads
  ssm_multipliers,    // five factors of config.json for z, x, b, c and dt
};

// The shape of a vector in GGUF.
enum class As : uint8_t {
  vector,
  column,   // {1, n}
  by_group, // {n / ssm groups, ssm groups}
  flat,     // {n} of a tensor of any shape
  parts,    // {n, 1, 1, m} of m such tensors
};

// What a tensor is made into.
struct Making {
  Rows rows = Rows::all;
  Change change = Change::none;
  std::string_view scale = {}; // FieldRule's expression that multiplies: "attention_in_multiplier * key_multiplier"
  As as = As::vector;
  bool transposed = false; // matrices are [inputs, outputs]
  Only only = Only::always;
};

// A tensor of a GGUF file and the checkpoint's tensor that it is made of. Among rules with the same `to`, the first
// whose `from` is in the checkpoint counts.
struct TensorRule {
  // Below the model or below a layer: a module, whose .weight and .bias are taken, or a tensor's full name. "{}" is the
  // number of an expert; a tensor of three dimensions has the experts in its first one. Of As::parts, what stands in
  // braces with commas are the parts, each of which may be missing: "x_{r,w}" is x_r, then x_w.
  // Empty: nothing. Then the tensor is a vector of ones times Making::scale, as long as a head.
  std::string_view from;
  std::string_view to; // below "blk.N.": without .weight and .bias for a module, the full name for a tensor
  Making how = {};
};

enum class Kind : uint8_t {
  count,
  real,
  flag,
  counts, // of an array: one for each layer
  flags,  // the same; "a = word" asks each entry
};

// A hyperparameter of a GGUF file and where config.json has it.
struct FieldRule {
  std::string_view key; // without the architecture; one that begins with "diffusion." stands alone
  Kind kind;
  // "a | b": the first that is there. "a | b * c": the product of the first and c. "a + b": their sum. "a.b": a field
  // of an object. "a = word" or "a = 8": 1 or 0, of an array how many entries are so. "a = word / other": either.
  // "a ^ 0.5": a power. An array counts by its length. A number stands for itself.
  std::string_view fields;
  std::optional<double> absent = {}; // the value where a field is missing; nothing: the key is not written
  Only only = Only::always;
};

// A field that must have one value, because the architecture has no other. true counts as 1.
struct FixedField {
  std::string_view field;
  double value, absent; // `absent`: the value where the field is missing
  Only only = Only::always;
};
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity(); // a field that is Infinity, or missing

// A hyperparameter with a value for each layer, which a checkpoint keeps in a tensor of one number.
struct NumberRule {
  std::string_view from; // below a layer
  std::string_view key;  // in full
};

// What becomes of the kinds of layers that config.json lists, each where a model has such layers.
struct LayerKeys {
  bool recurrent_layers = false; // attention.recurrent_layers: a flag per layer
  bool kv_heads = false;         // attention.head_count_kv: 0 in layers without attention
  bool ffn_widths = false;       // feed_forward_length: 0 in layers that are no feed-forward part
  bool windows = false;          // attention.sliding_window and its pattern: a flag per layer
  bool rope_pattern = false;     // attention.rope_pattern: a flag per layer, of layers whose base of rope is not 0
  // Layers that see all have heads of their own; the last layers attend to the caches of earlier ones, and may have
  // twice as wide a feed-forward part: Gemma 4.
  bool two_heads = false;
};

struct Checkpoint {
  const Checkpoint* base = nullptr;         // whose tensors, fields and fixed count, too, where these say nothing
  std::span<const TensorRule> tensors = {}; // before those that most share
  std::span<const FieldRule> fields = {};   // before those that most share
  std::span<const FixedField> fixed = {};
  std::span<const NumberRule> numbers = {};
  // A second stack's layers, decoder_block_count of them: "decoder.block.N.", which are "dec.blk.N." in GGUF.
  std::span<const TensorRule> decoder = {};
  LayerKeys layers = {};
  bool attention = true;                 // any layer has
  bool head = true;                      // there is an output matrix, perhaps the embedding table
  bool own_head = false;                 // an output matrix that is there counts, whatever tie_word_embeddings says
  std::string_view kv_heads = {};        // FieldRule's expression of their number, where it has other names
  std::string_view stack = {};           // what stands before "blk.N." in GGUF
  bool slides_by_default = false;        // sliding_window counts where use_sliding_window is missing
  double rotated = 1;                    // partial_rotary_factor where config.json does not say
  std::array<uint16_t, 4> sections = {}; // mrope_section where it does not say
  std::string_view activation = "silu";  // that config.json must name where it names one; "|" between several
};

} // namespace ridge::models
