// What an architecture's file says of attention, routing and activation. An optional field that is not set has the
// value that the model file gives; the comment names the hyperparameter.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::models {

enum class Rope : uint8_t {
  none,     // attention does not know positions
  adjacent, // turns elements (0,1) (2,3) …
  split,    // turns elements (0,n/2) (1,n/2+1) …
};

// Which position of a token turns a pair, of those that images have. Text has the same in all, but 0 in the fourth.
enum class RopeAxes : uint8_t {
  one,         // there is one position
  interleaved, // in turn one pair of each axis, as far as its section goes: rope.dimension_sections
  in_order,    // the sections one after the other
  numbered,    // the same, and the fourth is the number of a picture: batches have places, or it does not turn
};

// Which hidden rows the draft heads of a model take, from the model and from each other.
enum class Drafts : uint8_t {
  none,     // its heads are not supported
  normed,   // those behind the output norm, or the head's own
  residual, // the residual stream before it
};

// Several residual streams, hyper_connection.count of them: the embedding begins all.
enum class HyperConnections : uint8_t {
  none,
  mixing,          // matrices of the token mix them (core::HyperParams), and their mean is the end
  mixing_to_gates, // as mixing, but gates make the end of them
  independent,     // as mixing, but they do not mix, and gates make the end of them
  gated, // a block gets a mean of them, each normed and under gates of low rank, and so does the output matrix
};

struct AttentionSpec {
  Rope rope = Rope::none;
  bool qk_norm = false;          // norm of each q and k head, before rope
  bool norms_whole_rows = false; // of all heads together
  bool norms_behind_rope = false;
  bool qk_unit_norm = false;                     // RMS norm of each q and k head, behind rope, without weights
  std::optional<int64_t> heads = {};             // attention.head_count of the layer
  std::optional<int64_t> kv_heads = {};          // attention.head_count_kv of the layer
  std::optional<int64_t> k_dim = {}, v_dim = {}; // per head: attention.key_length, attention.value_length
  std::optional<int64_t> rope_dims = {};         // of each head's k_dim: rope.dimension_count
  std::optional<double> rope_base = {};          // rope.freq_base, or 10000
  std::optional<double> rope_divisor = {};       // of all frequencies: rope.scaling.factor
  bool rope_scaling = true;                      // rope.scaling.* counts
  bool rope_factors = true;                      // rope_freqs.weight counts, or LongRoPE's two, where the file has them
  RopeAxes rope_axes = RopeAxes::one;
  int32_t rope_span = 1;                                        // core::RopeTable
  std::optional<core::PositionScaleParams> position_scale = {}; // of q, behind rope
  std::optional<double> scale = {};                             // of q · k: attention.scale, or 1 / sqrt(k_dim)
  std::optional<int64_t> window = {};  // tokens that a token sees, 0: all; not set: a file that has one is refused
  bool chunked = false;                // the window does not slide: core::AttentionParams
  std::optional<double> soft_cap = {}; // of scores, 0: none; not set: a file that has one is refused
  bool sinks = false;                  // attn_sinks: a learned score per head that takes part in the softmax
  bool v_norm = false;                 // RMS norm of each v head, without weights
  bool k_is_v = false;                 // where the file has no attn_v, values are what k is before its norm and rope
  std::optional<int64_t> kv_of = {};   // a layer before, whose keys and values are attended to instead of own ones
  std::optional<core::ValueId> chosen = {}; // positions that a token attends to: Builder::chosen_blocks
  bool output_norm = false;                 // attn_sub_norm: of all heads' outputs, before the output matrix
  bool qkv_has_more = false;                // attn_qkv may have rows behind those of v, which are not used
  bool qkv_thirds = false;  // q, k and v begin at thirds of attn_qkv's rows, also where k and v are less
  bool qkv_bias = true;     // that the three matrices of q, k and v have counts
  bool output_bias = true;  // that the output matrix has counts
  double max_bias = 0;      // ALiBi: core::AttentionParams
  bool output_gate = false; // behind each head of q a gate, whose sigmoid scales the head's output
  core::Activation gate = core::Activation::sigmoid; // of the output
  bool gate_matrix = false; // attn_gate: a matrix that makes a gate for each element or head of the layer's input
  std::optional<bool> causal = {}; // false: a token sees later ones: attention.causal, or true
  bool block_ahead = true;         // a picture's token sees all of the picture, where its family wants that
  bool distance_bias = false;      // attn_rel_b, of the layer or the first one: what scores get by distance, as in T5
  bool bias_ahead = true;          // half of those are for what lies ahead
  std::string_view output_tensor = "attn_output"; // the output matrix
};

// Multi-head latent attention: Builder::latent_spec.
struct LatentSpec {
  double rope_magnitude = 1;                                    // of the rotated parts
  double score_scale = 1;                                       // beside 1 / sqrt(elements of a key)
  std::optional<core::PositionScaleParams> position_scale = {}; // of queries
  // How the part of keys that all heads share turns (rope.dimension_count). Where nothing turns it, it may be empty.
  Rope rope = Rope::adjacent;
  bool plain_rope = false; // its frequencies and magnitude are those of other attention, not of latent_spec
  std::optional<double> rope_base = {};          // of a plain rope: rope.freq_base
  bool rope_norm = false;                        // attn_k_norm: of that part of keys, before rope
  std::optional<int64_t> rank = {};              // of keys and values: attention.kv_lora_rank
  std::optional<int64_t> k_dim = {}, v_dim = {}; // per head: attention.key_length_mla, attention.value_length_mla
  int64_t window = 0;                            // tokens that a token sees, 0: all
  bool sinks = false;                            // attn_sinks: a learned score per head that takes part in the softmax
  bool gate = false; // attn_gate: a matrix that makes a gate for each element or head of the layer's input

  // Which positions a token attends to: all, those that the layer's own indexer chooses, or the choice of the last
  // layer that had one.
  enum class Sees : uint8_t { all, own_choice, last_choice };
  Sees sees = Sees::all;
  Rope index_rope = Rope::adjacent; // of the first elements of the indexer's heads
  bool index_rope_last = false;     // or of the last ones
  double index_epsilon = 0;         // of the norm of its keys
  // The indexer's keys are means of attention.indexer.kpool positions, and it chooses all of them or none. With
  // attention.indexer.kpool_select_tail a token attends to the last positions, too, of which there is no mean yet.
  bool index_pools = false;
};

struct RoutingSpec {
  std::optional<int64_t> experts = {};      // expert_count
  std::optional<int64_t> used = {};         // by each token: expert_used_count of the layer
  std::optional<int64_t> width = {};        // of an expert's hidden layer: Hparams::expert_width
  std::optional<bool> normalize = {};       // shares of the chosen sum to 1: expert_weights_norm, or true
  std::optional<core::Gate> gate = {};      // from scores to shares: expert_gating_func, or softmax
  std::optional<double> scale = {};         // of all shares: expert_weights_scale, or 1
  std::optional<int64_t> groups = {};       // experts are chosen from the best groups: expert_group_count, or 1
  std::optional<int64_t> groups_used = {};  // expert_group_used_count
  bool selection_bias = false;              // exp_probs_b, which counts for the choice only, where the file has it
  bool shared = false;                      // an expert that all tokens go through, where the file has one
  bool by_score = false;                    // experts and groups are chosen by score, before the gate
  bool shares_scale_input = false;          // an expert's input is multiplied with its share, not its output
  double scale_of_both = 1;                 // of the sum of the experts and the shared one
  std::optional<core::ValueId> router = {}; // the experts' scores, else those that ffn_gate_inp makes of the input
  bool scales_outputs = false;      // ffn_down_exps.scale, a factor of each expert's output, where the file has it
  bool latent = false;              // experts work on a narrower copy of the input, where the file has one
  std::string_view suffix = "exps"; // of the experts' tensors
  bool by_sigmoid = false;          // experts and groups are chosen by the sigmoid of scores
  int64_t share_matrix = 1;         // core::RouteParams
  bool by_token = false;            // ffn_gate_tid2eid: the experts of each token, whatever its scores
};

// hidden = activation(gate) * up if it is gated, else activation(up).
struct ActivationSpec {
  core::ActivationParams activation = {core::Activation::silu};
  bool gated = true;
  std::optional<float> limit_of_experts = {}; // ActivationParams::limit of an expert that not all tokens go through
  bool norm = false;                          // ffn_sub_norm: of a dense part's hidden layer
  std::optional<int64_t> width = {};          // of a dense part's hidden layer: feed_forward_length of the layer
  bool divides = false; // by ffn.act.scales, a dense part's hidden layer without gate, where the file has it
  bool bias = true;     // that the matrices of a dense part have counts
  // SiTU, where the first is not 0: soft_cap(gate) * sigmoid(gate) * soft_cap(up), the latter 0: up as it is.
  float situ_cap = 0, situ_up_cap = 0;
};

} // namespace ridge::models
