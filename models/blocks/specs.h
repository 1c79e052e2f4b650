// Specs of Programs, attention, routing and activation. Unset optional fields take the value of the hyperparameter in
// the comment.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::models {

// A Program's results: logits; the normed hidden state; logits and the hidden rows for draft heads (Program::hidden);
// logits from batches with rows and places (`pictures`, Program::has_token_coordinates), and hidden rows beside them
// (`drafted_pictures`); or, for the encoder of an encoder-decoder model, the caches that the decoder attends to
// (`encoded`).
enum class Ending : uint8_t { logits, hidden, drafted, pictures, drafted_pictures, encoded };

enum class Rope : uint8_t {
  none,
  adjacent, // pairs (0,1) (2,3) …
  split,    // pairs (0,n/2) (1,n/2+1) …
};

// Which of an image token's positions rotates a pair. Text has equal positions, but 0 on the fourth axis.
enum class RopeAxes : uint8_t {
  one,
  interleaved, // pairs cycle through the axes up to each section's length: rope.dimension_sections
  in_order,    // section by section
  numbered,    // in_order; the fourth is the image's number and does not rotate unless batches have places
};

// Hidden rows that draft heads take from the model and from each other.
enum class Drafts : uint8_t {
  none,     // unsupported
  normed,   // after the output norm or the head's
  residual, // before the norm
};

// hyper_connection.count streams, all starting as the embedding.
enum class HyperConnections : uint8_t {
  none,
  mixing,          // mixed by token-dependent matrices (core::HyperParams); ends with the mean
  mixing_to_gates, // likewise, but ends with a gated sum
  independent,     // not mixed; ends with a gated sum
  gated,           // blocks and the output matrix read low-rank gated means of normed streams
};

struct AttentionSpec {
  Rope rope = Rope::none;
  bool qk_norm = false;          // per head, before rope
  bool norms_whole_rows = false; // over all heads together
  bool norms_behind_rope = false;
  bool qk_unit_norm = false;                     // after rope, no weights
  std::optional<int64_t> heads = {};             // attention.head_count
  std::optional<int64_t> kv_heads = {};          // attention.head_count_kv
  std::optional<int64_t> k_dim = {}, v_dim = {}; // per head: attention.key_length, attention.value_length
  std::optional<int64_t> rope_dims = {};         // rope.dimension_count
  std::optional<double> rope_base = {};          // rope.freq_base or 10000
  std::optional<double> rope_divisor = {};       // rope.scaling.factor
  bool rope_scaling = true;                      // rope.scaling.* applies
  bool rope_factors = true;                      // rope_freqs.weight or LongRoPE's tensors apply, if present
  RopeAxes rope_axes = RopeAxes::one;
  int32_t rope_span = 1;                                        // see core::RopeTable
  std::optional<core::PositionScaleParams> position_scale = {}; // of q after rope
  std::optional<double> scale = {};                             // attention.scale or 1 / sqrt(k_dim)
  std::optional<int64_t> window = {};       // visible tokens, 0: all; unset: files with a window are refused
  bool chunked = false;                     // the window does not slide
  std::optional<double> soft_cap = {};      // of scores, 0: none; unset: files with one are refused
  bool sinks = false;                       // attn_sinks: a learned score per head in the softmax
  bool v_norm = false;                      // RMS, no weights
  bool k_is_v = false;                      // without attn_v, values are k before norm and rope
  std::optional<int64_t> kv_of = {};        // earlier layer whose cache is used
  std::optional<core::ValueId> chosen = {}; // attended positions: Builder::chosen_blocks
  bool output_norm = false;                 // attn_sub_norm, before the output matrix
  bool qkv_has_more = false;                // ignores rows of attn_qkv after v
  bool qkv_thirds = false;                  // q, k and v start at thirds of attn_qkv's rows
  bool qkv_bias = true;                     // use biases of q, k and v
  bool output_bias = true;                  // use the bias of the output matrix
  double max_bias = 0;                      // ALiBi
  bool output_gate = false;                 // q has a gate after each head; its sigmoid scales the head's output
  core::Activation gate = core::Activation::sigmoid;
  bool gate_matrix = false;        // attn_gate: a gate per element or head, from the layer's input
  std::optional<bool> causal = {}; // attention.causal or true
  bool block_ahead = true;         // image tokens see their whole image, if the family does so
  bool distance_bias = false;      // attn_rel_b, of the layer or the first: T5's bias by distance
  bool bias_ahead = true;          // half of the buckets are for later positions
  std::string_view output_tensor = "attn_output";
};

// Multi-head latent attention.
struct LatentSpec {
  double rope_magnitude = 1;
  double score_scale = 1; // times 1 / sqrt(key width)
  std::optional<core::PositionScaleParams> position_scale = {};
  // For the key part that all heads share (rope.dimension_count); it may be empty if none.
  Rope rope = Rope::adjacent;
  bool plain_rope = false;                       // ordinary frequencies and magnitude, not latent_spec's
  std::optional<double> rope_base = {};          // of a plain rope: rope.freq_base
  bool rope_norm = false;                        // attn_k_norm: of the shared part
  std::optional<int64_t> rank = {};              // attention.kv_lora_rank
  std::optional<int64_t> k_dim = {}, v_dim = {}; // attention.key_length_mla, attention.value_length_mla
  int64_t window = 0;
  bool sinks = false; // attn_sinks: a learned score per head in the softmax
  bool gate = false;  // attn_gate, per element or head

  // Attended positions: all, those from the layer's indexer, or from the last layer that has one.
  enum class AttendedPositions : uint8_t { all, own_choice, last_choice };
  AttendedPositions sees = AttendedPositions::all;
  Rope index_rope = Rope::adjacent; // for the first elements of the indexer's heads
  bool index_rope_last = false;     // for the last elements instead
  double index_epsilon = 0;         // of the norm of indexer keys
  // Indexer keys are means of attention.indexer.kpool positions, selected together. attention.indexer.kpool_select_tail
  // adds the last incomplete group.
  bool index_pools = false;
};

struct RoutingSpec {
  std::optional<int64_t> experts = {};      // expert_count
  std::optional<int64_t> used = {};         // expert_used_count
  std::optional<int64_t> width = {};        // default: Hparams::expert_width
  std::optional<bool> normalize = {};       // expert_weights_norm or true
  std::optional<core::Gate> gate = {};      // expert_gating_func or softmax
  std::optional<double> scale = {};         // expert_weights_scale or 1
  std::optional<int64_t> groups = {};       // expert_group_count or 1
  std::optional<int64_t> groups_used = {};  // expert_group_used_count
  bool selection_bias = false;              // exp_probs_b if present; for the selection only
  bool shared = false;                      // adds the shared expert if present
  bool by_score = false;                    // selects by score, before the gate
  bool shares_scale_input = false;          // shares multiply inputs, not outputs
  double scale_of_both = 1;                 // of the sum of routed and shared experts
  std::optional<core::ValueId> router = {}; // scores; unset: ffn_gate_inp's
  bool scales_outputs = false;              // ffn_down_exps.scale if present: a factor per expert's output
  bool latent = false;                      // routed experts read a narrower input, if present
  std::string_view suffix = "exps";         // of the experts' tensors
  bool by_sigmoid = false;                  // selects by sigmoid
  int64_t share_matrix = 1;                 // see core::RouteParams
  bool by_token = false;                    // ffn_gate_tid2eid selects experts by token
  double nearness = 0;                      // see core::RouteParams
};

// gated: activation(gate) * up, else activation(up).
struct ActivationSpec {
  core::ActivationParams activation = {core::Activation::silu};
  bool gated = true;
  std::optional<float> limit_of_experts = {}; // ActivationParams::limit of routed experts
  bool norm = false;                          // ffn_sub_norm: of a dense hidden layer
  std::optional<int64_t> width = {};          // of a dense hidden layer: feed_forward_length
  bool divides = false;                       // divides an ungated dense hidden layer by ffn.act.scales, if present
  bool bias = true;                           // use biases of dense matrices
  // SiTU unless situ_cap is 0: soft_cap(gate) * sigmoid(gate) * soft_cap(up); situ_up_cap 0: uncapped.
  float situ_cap = 0, situ_up_cap = 0;
};

} // namespace ridge::models
