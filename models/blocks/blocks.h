// The builder of architecture files: appends ops to a Program from a GGUF file's hyperparameters and tensors.
// Tensor names omit ".weight". Throws Error for missing or misshapen tensors. A linear adds its ".bias" if present.
// Refuses models that would be computed wrongly: unsupported specs, unread hyperparameters (Hparams::refuse_ignored),
// unused tensors (finish).
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/blocks/specs.h"
#include "models/hparams.h"
#include "models/model.h"
#include "models/planar.h"
#include "models/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace ridge::models {

class Builder {
 public:
  // `file` must outlive the Program. With `draft_head`, builds that head's Program. `partner`: for an EAGLE-3 head the
  // model's file; for a model that keeps rows for such a head, the head's file.
  explicit Builder(const gguf::File& file, Ending ending = Ending::logits, std::optional<int64_t> draft_head = {},
                   const gguf::File* partner = nullptr);

  const Hparams& hparams() const { return hparams_; }
  bool has(const std::string& tensor) const { // plain or planar
    return file_.find_tensor(tensor) != nullptr || file_.find_tensor(tensor + ".qdata") != nullptr;
  }
  const gguf::Tensor* tensor(const std::string& name) const { return file_.find_tensor(name); } // null: missing
  bool has_vocabulary() const;                                                                  // false: token ids only

  // Adds the first row of token_types if the file has it, and the vector named `plus`, if not empty.
  core::ValueId embed(double scale = 1, core::RowUse rows = core::RowUse::unscaled, const std::string& plus = "");
  // Whether tokens may have rows instead of ids; given() is slice `slice` of these rows [width] (0: the embedding),
  // zeros for other tokens.
  bool takes_pictures() const { return program_.has_token_coordinates; }
  core::ValueId input_row_slice(int64_t slice, const std::string& name);
  core::ValueId embed_positions();                                                      // position_embd.weight
  core::ValueId rms_norm(core::ValueId x, const std::string& tensor, double scale = 1); // scales the weights
  core::ValueId unit_norm(core::ValueId x, const std::string& name, int64_t group);     // no weights
  core::ValueId layer_norm(core::ValueId x, const std::string& tensor);                 // with an optional .bias
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows, bool bias = true);
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name, double scale = 1); // scales b
  core::ValueId gather(core::ValueId x);
  core::ValueId activate(core::ValueId x, const std::string& name, const ActivationSpec& activation = {});

  // Blocks: from the normed input x [width] to the addend of the residual stream.
  core::ValueId attention(core::ValueId x, int64_t il, const AttentionSpec& spec);
  core::ValueId ffn(core::ValueId x, int64_t il, const ActivationSpec& activation = {});
  // Includes the shared expert if the file has one.
  core::ValueId experts(core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                        const ActivationSpec& activation = {});
  // neighbors_share: core::DeltaParams; `gate`: of the output.
  core::ValueId delta_net(core::ValueId x, int64_t il, bool neighbors_share,
                          core::Activation gate = core::Activation::silu);
  // `epsilon`: of the norms of q and k; `minus`: the file's rates are negated.
  core::ValueId kimi_delta(core::ValueId x, int64_t il, float epsilon, bool minus = false);
  core::ValueId mamba2(core::ValueId x, int64_t il);
  core::ValueId mamba(core::ValueId x, int64_t il);       // Mamba 1: a rate per channel and state
  core::ValueId plamo_mamba(core::ValueId x, int64_t il); // PLaMo 2: a rate per head
  core::ValueId short_conv(core::ValueId x, int64_t il);
  // Linear attention with fixed decay per head, times `pace`.
  core::ValueId lightning_attention(core::ValueId x, int64_t il, double pace);
  core::ValueId time_mix(core::ValueId x, int64_t il);
  // The feed-forward part of RWKV 6 (gated) and RWKV 7.
  core::ValueId channel_mix(core::ValueId x, int64_t il, bool gated);
  // RWKV 7: returns the result and the first layer's values, which later layers mix in.
  std::pair<core::ValueId, core::ValueId> time_mix7(core::ValueId x, std::optional<core::ValueId> first_values,
                                                    int64_t il);
  core::ValueId latent_attention(core::ValueId x, int64_t il, const LatentSpec& spec);
  core::ValueId compressed_attention(core::ValueId x, int64_t il);
  // Encoder-decoder models. Both Programs have the same caches, so that KV blocks are interchangeable: first those of
  // cross-attention, which the encoder fills, then those of self-attention, as many as the deeper stack has. Call
  // share_caches() first.
  bool embeds() const { return embeds_; } // the Program ends with the hidden state
  bool encodes() const { return encodes_; }
  void share_caches(int64_t encoder_layers, int64_t decoder_layers);
  void store_encoded(core::ValueId encoded, int64_t decoder_layers); // keys and values of the encoder's output
  core::ValueId attend_to_encoded(core::ValueId x, int64_t il);
  void set_start_token(int32_t token) { program_.start_token = token; }
  // Blocks of attention.compress_ratios positions that the layer's indexer selects; nothing if that is 0. `attention`
  // gives the heads' rope.
  std::optional<core::ValueId> chosen_blocks(core::ValueId x, int64_t il, const AttentionSpec& attention);
  // Adds n-gram embeddings (ple.*) if the layer has them.
  core::ValueId add_ngrams(core::ValueId streams, int64_t il);
  // Scales for rope.scaling. Scores are multiplied by YaRN's magnitude of `multiplier`, rope by the ratio of the
  // magnitudes of `rope_multiplier` and `multiplier`.
  LatentSpec latent_spec(double multiplier, double rope_multiplier) const;

  // A dense part or experts, by Hparams::has_experts.
  core::ValueId feed_forward(core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                             const ActivationSpec& activation = {});

  // Per-layer embeddings [layers * width], and adding them to the residual stream.
  core::ValueId layer_inputs(core::ValueId x, int64_t width);
  core::ValueId add_layer_input(core::ValueId x, core::ValueId inputs, int64_t il);
  core::ValueId scaled_by(core::ValueId x, const std::string& tensor);
  core::ValueId scaled(core::ValueId x, const std::string& name, double factor);

  // keep_residual() appends x to the saved residual streams. mix_residuals() is the mean of these and x, weighted by a
  // softmax of the normed streams' products with `scores`.
  core::ValueId keep_residual(std::optional<core::ValueId> kept, core::ValueId x, const std::string& name);
  core::ValueId mix_residuals(core::ValueId kept, core::ValueId x, const std::string& scores);

  // AltUp: the residual stream has `parts` parts [parts * width]; the first goes through a layer.
  core::ValueId altup_stream(core::ValueId x, int64_t parts);
  core::ValueId altup_predict(core::ValueId stream, int64_t il, int64_t parts);
  core::ValueId altup_correct(core::ValueId predicted, core::ValueId computed, int64_t il, int64_t parts);
  core::ValueId altup_layer_input(core::ValueId stream, core::ValueId inputs, int64_t il, int64_t parts);
  core::ValueId altup_mean(core::ValueId stream, int64_t parts);
  core::ValueId columns(core::ValueId x, const std::string& name, int64_t first, int64_t count);
  core::ValueId laurel(core::ValueId x, int64_t il);
  // Gates count only above their mean plus `deviations` standard deviations.
  core::ValueId sparse_ffn(core::ValueId x, int64_t il, double deviations);

  // Final norm (none if `norm` is empty) and output matrix, or the embedding table. Logits are multiplied by `scale`,
  // then soft_cap * tanh(logit / soft_cap) unless 0. A Program that ends with the hidden state gets only the norm.
  void logits(core::ValueId x, const std::string& norm = "output_norm", double scale = 1, double soft_cap = 0,
              bool bias = true);

  // From the normed input of a block to its addend of the residual stream.
  using Block = std::function<core::ValueId(core::ValueId normed, int64_t il)>;
  struct Model {
    Block mixer, ffn; // without ffn a layer is one block
    std::string_view mixer_norm = "attn_norm";
    std::string_view ffn_norm = "ffn_norm";
    std::string_view output_norm = "output_norm";
    std::string_view mixer_post_norm = {}, ffn_post_norm = {};
    // ffn reads the mixer's input, through its own norm or, if ffn_norm is empty, through the mixer's.
    bool parallel = false;
    Drafts drafts = Drafts::none; // draft heads are layers of the same blocks, numbered from layers()
    bool layer_norms = false;
    bool norm_biases = false; // if the file has them
    bool bare_norms = false;
    bool learns_positions = false; // position_embd.weight
    bool ffn_has_state = false;    // the last one must process all tokens
    double embedding_scale = 1, residual_scale = 1, logit_scale = 1;
    bool scaled = false;     // apply the file's embedding_scale, residual_scale, logit_scale (a divisor)
    bool output_bias = true; // use output.bias, if present
    double soft_cap = 0;
    HyperConnections hyper_connections = HyperConnections::none;
    // Ends with the hidden state after output_norm, which may be empty.
    bool embeds = false;
    std::string_view stack = {};
    std::optional<int64_t> layers = {}; // default: Hparams::layers
    std::optional<float> post_norm_epsilon = {};
    std::function<core::ValueId(core::ValueId x, int64_t il)> start_layer;
    // From the residual stream after and before the mixer to itself.
    std::function<core::ValueId(core::ValueId x, core::ValueId before, int64_t il)> end_mixer;
    std::function<core::ValueId(core::ValueId x)> begin;
    std::function<core::ValueId(core::ValueId x, int64_t il)> end_layer;
  };
  void build(const Model& model);
  void transformer(const AttentionSpec& spec, const Block& ffn);

  // An EAGLE-3 draft head in its own file.
  void eagle_head(const AttentionSpec& attention);

  // Following ops belong to layer `il`. Returns the prefix of its tensors: "blk.3.".
  std::string begin_layer(int64_t il);
  std::string layer_name(int64_t il) const;
  void skip_indexer(int64_t il);
  // Marks a tensor that does not affect the logits as used.
  void skip(std::string_view tensor) { used_tensors_.emplace(tensor); }
  void skip_stack(std::string_view stack);

  core::Program finish() &&; // validated; throws Error for unread hyperparameters and unused tensors

 private:
  // `rows` rows of a tensor in runs of `run` (0: one run), which are `stride` rows apart.
  struct RowSlice {
    std::string_view part;
    int64_t tensor_rows, first, rows, run = 0, stride = 0;
  };

  enum class NormKind : uint8_t { rms, biased_rms, layer };
  // Norm of each `group` of x. The tensor has weights for one group or for the whole row.
  core::ValueId group_norm(core::ValueId x, const std::string& tensor, int64_t group, NormKind kind = NormKind::rms);
  core::ValueId norm(core::ValueId x, const std::string& tensor) { return group_norm(x, tensor, width_of(x), norms_); }
  core::ValueId final_norm(core::ValueId x, const std::string& tensor, double scale);
  void output_matrix(core::ValueId x, bool bias);
  double scale_of(const Model& model, std::string_view key, double own) const;
  // `gathers`: only tokens with wanted logits go through the feed-forward part.
  core::ValueId layer(const Model& model, core::ValueId x, int64_t il, bool gathers);
  void end(const Model& model, core::ValueId x, const std::string& norm);
  void build_draft_head(const Model& model);
  // What an EAGLE-3 head takes from its model: inputs of some layers, combined by a matrix.
  struct TakenRows {
    std::vector<int64_t> layers;
    int64_t width = 0;
    core::Weight matrix;
    std::optional<core::Weight> norm;
    float epsilon = 0;
    int64_t last_layer() const { return std::ranges::max(layers); }
  };
  TakenRows taken_rows();
  void take_row(core::ValueId x, int64_t il);
  core::Weight lend(const std::string& name, int64_t cols, int64_t rows);
  int64_t vocabulary() const;
  void eagle_logits(core::ValueId normed);
  std::vector<int64_t> draft_vocabulary() const; // the model's tokens in an EAGLE-3 head's reduced vocabulary
  int64_t draft_layer() const { return hparams_.layers() + *draft_head_; }
  std::string draft_name(std::string_view tensor) const {
    return fmt::format("blk.{}.nextn.{}", draft_layer(), tensor);
  }
  [[noreturn]] void refuse_drafts() const;
  void hidden(core::ValueId x, const std::string& norm);
  core::WeightId distance_bias(const std::string& blk, const AttentionSpec& spec);
  void scale_weight(core::WeightId id, double scale);
  core::ValueId permute(core::ValueId x, const std::string& name, std::span<const int32_t> order);
  core::ValueId repeated(core::ValueId x, const std::string& name, int64_t parts);
  core::ValueId last_first(core::ValueId x, const std::string& name, int64_t head_dim, int64_t count);
  core::WeightId experts_of_tokens(const std::string& name, int64_t experts, int64_t used);
  core::ValueId rotated_by_position(core::ValueId x, const std::string& name, const AttentionSpec& spec,
                                    bool back = false);
  core::ValueId compressed(core::ValueId x, const std::string& tensor, const AttentionSpec& spec, int64_t ratio);
  core::ValueId gated_layer_input(core::ValueId x, core::ValueId inputs, int64_t il);
  core::ValueId magnitude(core::ValueId x, const std::string& name, double factor, int64_t count);
  core::ValueId bare_norm(core::ValueId x, const std::string& name, int64_t group, std::vector<core::WeightId> weights);
  core::ValueId altup_matrices(core::ValueId x, const std::string& tensor, int64_t count);
  core::ValueId altup_router(core::ValueId x, const std::string& blk, std::string_view which, int64_t parts);
  core::WeightId zeros_then_repeated(const std::string& name, std::span<const float> vector, int64_t parts);
  core::ValueId above_threshold(core::ValueId x, const std::string& name, double deviations);
  core::ValueId rope(core::ValueId x, const std::string& name, const AttentionSpec& spec);
  core::ValueId activate(core::ValueId gate, core::ValueId up, const std::string& name,
                         const ActivationSpec& activation);
  core::ValueId q_or_k(core::ValueId x, const std::string& blk, std::string_view which, const AttentionSpec& spec);
  core::ValueId glu(core::Activation kind, core::ValueId gate, core::ValueId x, const std::string& name);
  core::WeightId taps(const std::string& name, int64_t kernel, int64_t channels);
  core::ValueId conv1d(core::ValueId x, const std::string& tensor, int64_t kernel, core::Activation activation);
  struct QueryKeyValue {
    core::ValueId q, gate, k, v;
  };
  QueryKeyValue queries_keys_values(core::ValueId x, const std::string& blk, const AttentionSpec& spec);
  core::ValueId gated_up(core::ValueId x, const std::string& blk, std::string_view suffix, int64_t width,
                         const ActivationSpec& activation);
  core::ValueId shared_expert(core::ValueId x, const std::string& blk, const ActivationSpec& activation);
  std::pair<core::ValueId, core::ValueId> delta_net_inputs(core::ValueId x, const std::string& blk, int64_t k_heads,
                                                           int64_t v_heads, int64_t dim);
  core::ValueId previous_minus_current(core::ValueId x, const std::string& name);
  core::ValueId lerp_with_previous(core::ValueId x, core::ValueId difference, const std::string& tensor);
  core::WeightId time_mix_share(const std::string& blk, std::string_view which, int64_t place, int64_t count);
  core::ValueId low_rank(core::ValueId x, const std::string& tensor, const ActivationSpec& activation);
  core::ValueId head_products(core::ValueId r, core::ValueId k, const std::string& tensor, int64_t dim);
  core::ValueId attention_gate(core::ValueId x, const std::string& blk, int64_t heads, int64_t v_dim);
  core::ValueId scanned(core::ValueId x, core::ValueId b, core::ValueId c, core::ValueId dt, core::ValueId gate,
                        const std::string& blk);
  int32_t store_keys_values(core::ValueId k, core::ValueId v, const std::string& blk, const AttentionSpec& spec);
  int32_t cache_of(int64_t il, const AttentionSpec& spec) const;
  core::KvLayer encoded_cache(int64_t il) const;
  int32_t rope_table(const AttentionSpec& spec);
  int64_t hyper_count() const;
  core::ValueId hyper_begin(core::ValueId x);
  core::ValueId hyper_end(HyperConnections kind, core::ValueId x);
  std::pair<core::ValueId, core::ValueId> hyper_input(HyperConnections kind, core::ValueId x,
                                                      const std::string& tensor);
  std::pair<core::ValueId, core::ValueId> hyper_gates(core::ValueId x, const std::string& tensor, bool mixes);
  float hyper_epsilon() const;
  core::ValueId gated_sum(core::ValueId x, const std::string& tensor);
  core::ValueId gated_mean(core::ValueId normed, const std::string& tensor);
  // Rotates the first `rotated` elements of each head.
  core::ValueId latent_rope(core::ValueId x, const std::string& name, int64_t head_dim, int64_t rotated, Rope style,
                            const LatentSpec& spec);
  core::ValueId chosen_positions(core::ValueId x, core::ValueId q, const std::string& blk, int64_t rotated,
                                 const LatentSpec& spec);
  core::ValueId pooled_keys(core::ValueId x, core::ValueId keys, const std::string& blk, int64_t kernel);
  // The `most` best positions; each key covers `span` of them.
  core::ValueId best_positions(core::ValueId queries, core::ValueId weights, core::ValueId key, const std::string& blk,
                               int64_t span, int64_t most, core::IndexParams params);
  core::ValueId mean_keys(core::ValueId keys, const std::string& blk, int64_t kernel);
  core::ValueId ngram_embedding(const std::string& blk);
  core::WeightId ngram_hash(const core::NgramParams& params, int64_t table_rows);
  core::ValueId dilated_conv(core::ValueId x, const std::string& tensor, int64_t kernel, int64_t dilation);
  core::Weight head_rows(const std::string& tensor, int64_t cols, int64_t tensor_rows, int64_t heads, int64_t first,
                         int64_t rows);
  core::WeightId transposed(const core::Weight& heads, std::string_view part);
  std::pair<core::WeightId, core::WeightId> latent_matrices(const std::string& blk, int64_t heads, int64_t nope,
                                                            int64_t v_dim, int64_t rank, int64_t rest);
  int32_t new_state(const std::string& name, int64_t width);
  AttentionSpec resolved(AttentionSpec spec, int64_t il) const;
  RoutingSpec resolved(RoutingSpec spec, int64_t il) const;
  double scale_of(std::string_view key, double fallback) const;

  core::WeightId weight(const std::string& name, int64_t cols, int64_t rows, int64_t count = 1);
  core::WeightId expert_bias(const std::string& name, const RowSlice& rows, int64_t experts);
  core::WeightId slice(const std::string& name, int64_t cols, const RowSlice& rows, int64_t count = 1);
  core::WeightId reordered(const std::string& name, int64_t cols, int64_t tensor_rows, std::string_view part,
                           const std::vector<int64_t>& order);
  // The bias is the same part of the tensor's, or all of `own_bias` if the file has that.
  core::ValueId linear_of(core::ValueId x, const std::string& tensor, const RowSlice& rows,
                          const std::string& own_bias = "", bool with_bias = true);
  // Columns and rows of a matrix, plain or planar; {0, 0}: missing.
  std::pair<int64_t, int64_t> sides_of(const std::string& name) const;
  core::Weight tensor_weight(const std::string& name, int64_t cols, int64_t rows, int64_t count);
  core::WeightId add_weight(core::Weight weight);
  core::Weight planar_tensor(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  core::WeightId planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  // Permutes x if the columns of `weight` need it (PlanarWeight::input_order).
  core::ValueId in_order_of(core::WeightId weight, core::ValueId x);
  core::WeightId vector(const std::string& name, int64_t width);
  core::WeightId constant(const std::string& name, std::span<const float> values, int64_t rows = 1);
  core::WeightId constant(const std::string& name, int64_t width, float value, int64_t rows = 1);
  core::WeightId integers(const std::string& name, std::span<const int32_t> values);
  core::WeightId flat_vector(const std::string& name, int64_t width);
  core::WeightId repeated(const std::string& name, int64_t count, int64_t times);
  void require_f32(const core::Weight& weight) const;
  void refuse_unused_tensors() const;

  core::ValueId value(std::string name, int64_t width, bool gathered, core::ValueKind kind = core::ValueKind::f32);
  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  bool gathered(core::ValueId id) const { return program_.values[id].gathered; }
  int64_t width_of(core::ValueId id) const { return program_.values[id].width; }

  const gguf::File& file_;
  const Hparams hparams_;
  core::Program program_;
  const std::optional<int64_t> draft_head_;
  const bool keeps_hidden_;
  const gguf::File* const partner_;
  std::optional<TakenRows> taken_;
  std::vector<core::ValueId> taken_values_;
  Drafts drafts_ = Drafts::none;
  int32_t layer_ = -1;
  std::map<RopeSpec, int32_t> rope_tables_;
  std::map<int32_t, int32_t> tables_back_;
  std::map<int64_t, int32_t> cache_of_layer_;
  bool embeds_;
  const bool encodes_;
  int64_t shared_caches_ = 0;
  std::string_view stack_;
  NormKind norms_ = NormKind::rms;
  bool bare_norms_ = false;
  std::map<Rope, int32_t> latent_tables_;
  core::ValueId chosen_ = -1;
  std::set<std::string, std::less<>> used_tensors_;
  struct InputOrder {
    core::WeightId order;
    int64_t group;
  };
  std::map<core::WeightId, InputOrder> order_of_weight_;
  std::map<std::string, core::Weight> divided_; // planar ones, of which Programs use parts
};

} // namespace ridge::models
