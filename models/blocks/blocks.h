// What architecture files are written with: a builder that reads a GGUF file's hyperparameters and tensors and appends
// ops to a Program.
//
// Tensors are named as in GGUF, without ".weight". Each is checked against the shape that the hyperparameters imply; an
// Error names one that is missing or has another shape. A linear takes its ".bias" tensor where the file has one.
//
// A model is refused where it asks for something that would not be computed: a field of a spec that the ops cannot do
// (specs.h), a hyperparameter that nothing read (Hparams::refuse_ignored), or a tensor that no op uses (finish).
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
  // The architecture is the one that the file names. `file` must outlive the Program. With a draft head, `build` makes
  // the Program of that one, from the same declaration of the model. `partner`: of an EAGLE-3 head the model's file, of
  // a model that is to keep rows for such a head the head's (eagle.cpp).
  explicit Builder(const gguf::File& file, Ending ending = Ending::logits, std::optional<int64_t> draft_head = {},
                   const gguf::File* partner = nullptr);

  const Hparams& hparams() const { return hparams_; }
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  const gguf::Tensor* tensor(const std::string& name) const { return file_.find_tensor(name); } // null: not there
  bool has_vocabulary() const; // else the file is for token ids alone

  // With the first row of token_types, where the file has it, and the vector `plus`, where that is not empty.
  core::ValueId embed(double scale = 1, core::RowUse rows = core::RowUse::as_it_is, const std::string& plus = "");
  // Whether tokens may have rows instead of ids; and part `slice` of such rows, each as wide as the model (0: what
  // embed() takes), zeros for other tokens.
  bool takes_pictures() const { return program_.has_places; }
  core::ValueId given(int64_t slice, const std::string& name);
  core::ValueId embed_positions(); // learned ones, position_embd.weight
  core::ValueId rms_norm(core::ValueId x, const std::string& tensor, double scale = 1); // of the weights
  core::ValueId unit_norm(core::ValueId x, const std::string& name, int64_t group); // of each group, without weights
  core::ValueId layer_norm(core::ValueId x, const std::string& tensor); // with the .bias, where the file has one
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows, bool bias = true);
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name, double scale = 1); // of b
  core::ValueId gather(core::ValueId x);
  core::ValueId activate(core::ValueId x, const std::string& name, const ActivationSpec& activation = {});

  // From the normed input x [width] to what is added to the residual stream [width], with the tensors of layer `il`.
  core::ValueId attention(core::ValueId x, int64_t il, const AttentionSpec& spec); // q, k, v, rope, cache, output
  core::ValueId ffn(core::ValueId x, int64_t il, const ActivationSpec& activation = {});
  // With the shared expert, where the file has one.
  core::ValueId experts(core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                        const ActivationSpec& activation = {});
  // neighbors_share: core::DeltaParams; `gate`: of the output.
  core::ValueId delta_net(core::ValueId x, int64_t il, bool neighbors_share,
                          core::Activation gate = core::Activation::silu);
  // `epsilon`: of the norms of q and k; `minus`: whether the file's rates are minus those of other files.
  core::ValueId kimi_delta(core::ValueId x, int64_t il, float epsilon, bool minus = false);
  core::ValueId mamba2(core::ValueId x, int64_t il);
  core::ValueId mamba(core::ValueId x, int64_t il);       // the first one: a rate for each channel and state
  core::ValueId plamo_mamba(core::ValueId x, int64_t il); // of PLaMo 2: a rate for each head
  core::ValueId short_conv(core::ValueId x, int64_t il);
  // Linear attention whose heads forget at fixed paces, times `pace`.
  core::ValueId lightning_attention(core::ValueId x, int64_t il, double pace);
  core::ValueId time_mix(core::ValueId x, int64_t il); // of RWKV 6, in attention's place
  // The feed-forward part of RWKV 6, with a gate, and of RWKV 7, without one.
  core::ValueId channel_mix(core::ValueId x, int64_t il, bool gated);
  // RWKV 7's: its result, and the first layer's values, which later layers mix into their own.
  std::pair<core::ValueId, core::ValueId> time_mix7(core::ValueId x, std::optional<core::ValueId> first_values,
                                                    int64_t il);
  core::ValueId latent_attention(core::ValueId x, int64_t il, const LatentSpec& spec);
  core::ValueId compressed_attention(core::ValueId x, int64_t il); // of DeepSeek V4
  // A decoder's layers attend to what an encoder gave. Its Program and the encoder's (encodes()) have the same caches,
  // so that blocks of the one fit the other: first those that the encoder fills and the decoder reads, one for each of
  // the decoder's layers, then those of own layers, as many as the stack with more of them has. share_caches() comes
  // first.
  bool embeds() const { return embeds_; } // the Program ends with the hidden state
  bool encodes() const { return encodes_; }
  void share_caches(int64_t encoder_layers, int64_t decoder_layers);
  void store_encoded(core::ValueId encoded, int64_t decoder_layers); // the rows that the encoder ends with
  core::ValueId attend_to_encoded(core::ValueId x, int64_t il);
  void set_start_token(int32_t token) { program_.start_token = token; }
  // The positions that the layer's indexer chooses, of attention.compress_ratios of the layer next to each other
  // together; nothing where that is 0. `attention`: whose rope its heads have.
  std::optional<core::ValueId> chosen_blocks(core::ValueId x, int64_t il, const AttentionSpec& attention);
  // The residual streams plus what the last tokens give by a table (ple.*), in the layer that has such a part.
  core::ValueId add_ngrams(core::ValueId streams, int64_t il);
  // The scales that follow from the file's rope.scaling. YaRN's magnitude grows with `multiplier` in the scores, and
  // with the ratio of the magnitudes of `rope_multiplier` and `multiplier` in rope.
  LatentSpec latent_spec(double multiplier, double rope_multiplier) const;

  // Dense or experts, as the file says of the layer (Hparams::has_experts).
  core::ValueId feed_forward(core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                             const ActivationSpec& activation = {});

  // Embeddings of the token for each layer [layers * width], from the embedding x; and their way into the residual
  // stream at the end of a layer.
  core::ValueId layer_inputs(core::ValueId x, int64_t width);
  core::ValueId add_layer_input(core::ValueId x, core::ValueId inputs, int64_t il);
  core::ValueId scaled_by(core::ValueId x, const std::string& tensor); // of one number
  core::ValueId scaled(core::ValueId x, const std::string& name, double factor);

  // The residual stream of some layers, side by side, with x behind them; and the mean of such `kept` and of x, by a
  // softmax of how well their norms fit the vector `scores`.
  core::ValueId keep_residual(std::optional<core::ValueId> kept, core::ValueId x, const std::string& name);
  core::ValueId mix_residuals(core::ValueId kept, core::ValueId x, const std::string& scores);

  // AltUp: a residual stream of several parts [parts * width], of which the first goes through a layer.
  core::ValueId altup_stream(core::ValueId x, int64_t parts); // from the embedding
  core::ValueId altup_predict(core::ValueId stream, int64_t il, int64_t parts);
  core::ValueId altup_correct(core::ValueId predicted, core::ValueId computed, int64_t il, int64_t parts);
  core::ValueId altup_layer_input(core::ValueId stream, core::ValueId inputs, int64_t il, int64_t parts);
  core::ValueId altup_mean(core::ValueId stream, int64_t parts); // [width]
  core::ValueId columns(core::ValueId x, const std::string& name, int64_t first, int64_t count);
  core::ValueId laurel(core::ValueId x, int64_t il); // x plus a part of low rank
  // A feed-forward part whose gates count as far as they are above their mean by this many standard deviations.
  core::ValueId sparse_ffn(core::ValueId x, int64_t il, double deviations);

  // Final norm and the output matrix; that is the embedding table where the file has no output matrix. The logits are
  // multiplied with `scale`; `soft_cap`: they are soft_cap * tanh(logit / soft_cap), 0: as they are. A Program that
  // ends with the hidden state gets the norm alone; an empty `norm` stands for none.
  void logits(core::ValueId x, const std::string& norm = "output_norm", double scale = 1, double soft_cap = 0,
              bool bias = true);

  // A block of a layer: from its normed input to what is added to the residual stream.
  using Block = std::function<core::ValueId(core::ValueId normed, int64_t il)>;
  struct Model {
    Block mixer, ffn;                          // ffn may be empty: then a layer is one block
    std::string_view mixer_norm = "attn_norm"; // tensors of a layer; empty: no norm
    std::string_view ffn_norm = "ffn_norm";
    std::string_view output_norm = "output_norm";
    std::string_view mixer_post_norm = {}, ffn_post_norm = {}; // of what a block gives
    // The feed-forward part has the mixer's input; with its own norm, or where ffn_norm is empty with the mixer's.
    bool parallel = false;
    Drafts drafts = Drafts::none;  // a draft head has a layer of the same blocks, of number layers() and above
    bool layer_norms = false;      // norms take off the mean, and have biases where the file has them
    bool norm_biases = false;      // norms have biases where the file has them
    bool bare_norms = false;       // norms have no weights
    bool learns_positions = false; // position_embd.weight
    bool ffn_has_state = false;    // so all tokens go through the last one
    double embedding_scale = 1, residual_scale = 1, logit_scale = 1; // factors
    bool scaled = false; // where the file has embedding_scale, residual_scale and logit_scale (a divisor), they count
    bool output_bias = true; // output.bias counts, where the file has it
    double soft_cap = 0;     // of logits, 0: none
    HyperConnections hyper_connections = HyperConnections::none;
    // The model has no output matrix: it ends with the hidden state behind output_norm, which may be empty.
    bool embeds = false;
    std::string_view stack = {};                 // before the names of layers' tensors: "enc."
    std::optional<int64_t> layers = {};          // Hparams::layers
    std::optional<float> post_norm_epsilon = {}; // of the two post norms
    std::function<core::ValueId(core::ValueId x, int64_t il)> start_layer; // from the residual stream to itself
    // From the residual stream behind the mixer, and what it was before, to itself.
    std::function<core::ValueId(core::ValueId x, core::ValueId before, int64_t il)> end_mixer;
    std::function<core::ValueId(core::ValueId x)> begin;                 // from the embedding to the residual stream
    std::function<core::ValueId(core::ValueId x, int64_t il)> end_layer; // from the residual stream to itself
  };
  // Embedding, layers, final norm and output.
  void build(const Model& model);
  // The same with attention as the mixer.
  void transformer(const AttentionSpec& spec, const Block& ffn);

  // A draft head that is a file of its own and takes rows of several layers of its model.
  void eagle_head(const AttentionSpec& attention);

  // Ops appended from here on belong to layer `il`. Returns the prefix of its tensors' names, "blk.3.".
  std::string begin_layer(int64_t il);
  std::string layer_name(int64_t il) const; // that prefix
  // The tensors of an indexer whose choice is not used.
  void skip_indexer(int64_t il);
  // A tensor that a file may have and that the logits do not depend on.
  void skip(std::string_view tensor) { used_tensors_.emplace(tensor); }
  void skip_stack(std::string_view stack); // all tensors whose names begin so

  core::Program finish() &&; // validated

 private:
  // Some rows of a tensor: `rows` of them, in runs of `run` (0: one run), the runs `stride` rows apart.
  struct RowSlice {
    std::string_view part; // what they are: "gate"
    int64_t tensor_rows, first, rows, run = 0, stride = 0;
  };

  enum class NormKind : uint8_t { rms, biased_rms, layer }; // those two with the .bias, where the file has one
  // Norm of each `group` of x. The tensor has weights for one group, or for the whole row.
  core::ValueId group_norm(core::ValueId x, const std::string& tensor, int64_t group, NormKind kind = NormKind::rms);
  // Norm of whole rows, of the kind that the model has.
  core::ValueId norm(core::ValueId x, const std::string& tensor) { return group_norm(x, tensor, width_of(x), norms_); }
  core::ValueId final_norm(core::ValueId x, const std::string& tensor, double scale);
  bool has_matrix(const std::string& name) const; // without ".weight"
  void output_matrix(core::ValueId x, bool bias);
  double scale_of(const Model& model, std::string_view key, double own) const;
  // A layer, from the residual stream to itself. With `gathers`, only tokens whose logits are wanted go through the
  // feed-forward part.
  core::ValueId layer(const Model& model, core::ValueId x, int64_t il, bool gathers);
  void end(const Model& model, core::ValueId x, const std::string& norm);
  void build_draft_head(const Model& model);
  // What an EAGLE-3 head takes of its model: the inputs of some layers, through a matrix.
  struct TakenRows {
    std::vector<int64_t> layers; // whose inputs; layers(): what the last one gives
    int64_t width = 0;           // of each
    core::Weight matrix;
    std::optional<core::Weight> norm; // of all side by side
    float epsilon = 0;
    int64_t last_layer() const { return std::ranges::max(layers); }
  };
  TakenRows taken_rows();                                                 // of the head that this builder's file has
  void take_row(core::ValueId x, int64_t il);                             // the input of layer `il`, where it is taken
  core::Weight lend(const std::string& name, int64_t cols, int64_t rows); // to another file's Program
  int64_t vocabulary() const;                                             // rows of the table of tokens
  void eagle_logits(core::ValueId normed);
  std::vector<int64_t> draft_words() const; // of an EAGLE-3 head with a vocabulary of its own: the model's tokens
  int64_t draft_layer() const { return hparams_.layers() + *draft_head_; }
  std::string draft_name(std::string_view tensor) const {
    return fmt::format("blk.{}.nextn.{}", draft_layer(), tensor);
  }
  [[noreturn]] void refuse_drafts() const;
  void hidden(core::ValueId x, const std::string& norm); // as the result
  core::WeightId distance_bias(const std::string& blk, const AttentionSpec& spec);
  void scale_weight(core::WeightId id, double scale);
  core::ValueId permute(core::ValueId x, const std::string& name, std::span<const int32_t> order);
  core::ValueId repeated(core::ValueId x, const std::string& name, int64_t parts);
  core::ValueId last_first(core::ValueId x, const std::string& name, int64_t head_dim, int64_t count);
  core::WeightId experts_of_tokens(const std::string& name, int64_t experts, int64_t used);
  core::ValueId turned(core::ValueId x, const std::string& name, const AttentionSpec& spec, bool back = false);
  core::ValueId compressed(core::ValueId x, const std::string& tensor, const AttentionSpec& spec, int64_t ratio);
  core::ValueId gated_layer_input(core::ValueId x, core::ValueId inputs, int64_t il);
  core::ValueId magnitude(core::ValueId x, const std::string& name, double factor, int64_t count);
  core::ValueId bare_norm(core::ValueId x, const std::string& name, int64_t group, std::vector<core::WeightId> weights);
  core::ValueId altup_matrices(core::ValueId x, const std::string& tensor, int64_t count);
  core::ValueId altup_router(core::ValueId x, const std::string& blk, std::string_view which, int64_t parts);
  core::WeightId behind_first(const std::string& name, std::span<const float> vector, int64_t parts);
  core::ValueId highest(core::ValueId x, const std::string& name, double deviations);
  core::ValueId rope(core::ValueId x, const std::string& name, const AttentionSpec& spec);
  core::ValueId activate(core::ValueId gate, core::ValueId up, const std::string& name,
                         const ActivationSpec& activation);
  core::ValueId q_or_k(core::ValueId x, const std::string& blk, std::string_view which, const AttentionSpec& spec);
  core::ValueId glu(core::Activation kind, core::ValueId gate, core::ValueId x, const std::string& name);
  core::WeightId taps(const std::string& name, int64_t kernel, int64_t channels);
  core::ValueId conv1d(core::ValueId x, const std::string& tensor, int64_t kernel, core::Activation activation);
  struct QueryKeyValue {
    core::ValueId q, gate, k, v; // gate: -1 where there is none
  };
  QueryKeyValue queries_keys_values(core::ValueId x, const std::string& blk, const AttentionSpec& spec);
  core::ValueId gated_up(core::ValueId x, const std::string& blk, std::string_view suffix, int64_t width,
                         const ActivationSpec& activation);
  core::ValueId shared_expert(core::ValueId x, const std::string& blk, const ActivationSpec& activation);
  std::pair<core::ValueId, core::ValueId> delta_net_inputs(core::ValueId x, const std::string& blk, int64_t k_heads,
                                                           int64_t v_heads, int64_t dim);
  core::ValueId before_minus_now(core::ValueId x, const std::string& name);
  core::ValueId toward(core::ValueId x, core::ValueId difference, const std::string& tensor);
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
  // Hyper-connections: how many streams; these from the embedding; what they are in the end; what a block gets, and
  // the gates for what it gives.
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
  // The `most` positions whose keys, each for `span` of them, score best.
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
  // The tensor's rows in another order, copied.
  core::WeightId reordered(const std::string& name, int64_t cols, int64_t tensor_rows, std::string_view part,
                           const std::vector<int64_t>& order);
  // The bias, if any, is that part of the tensor's, or all of `own_bias` where the file has that.
  core::ValueId linear_of(core::ValueId x, const std::string& tensor, const RowSlice& rows,
                          const std::string& own_bias = "", bool with_bias = true);
  core::Weight tensor_weight(const std::string& name, int64_t cols, int64_t rows, int64_t count);
  core::WeightId add_weight(core::Weight weight);
  core::WeightId planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  // x, or its elements in the order in which the columns of `weight` want them (PlanarWeight::input_order).
  core::ValueId in_order_of(core::WeightId weight, core::ValueId x);
  core::WeightId vector(const std::string& name, int64_t width);
  core::WeightId constant(const std::string& name, std::span<const float> values, int64_t rows = 1); // made up
  core::WeightId constant(const std::string& name, int64_t width, float value, int64_t rows = 1);
  core::WeightId integers(const std::string& name, std::span<const int32_t> values); // of role order
  // A tensor of `width` F32 elements of any shape, as a vector.
  core::WeightId flat_vector(const std::string& name, int64_t width);
  // Each of `count` factors `times` times.
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
  const std::optional<int64_t> draft_head_; // whose Program this is
  const bool keeps_hidden_;                 // Program::hidden, for draft heads of the file
  const gguf::File* const partner_;
  std::optional<TakenRows> taken_;
  std::vector<core::ValueId> taken_values_; // of TakenRows::layers
  Drafts drafts_ = Drafts::none;
  int32_t layer_ = -1; // that ops are appended to
  std::map<RopeSpec, int32_t> rope_tables_;
  std::map<int32_t, int32_t> tables_back_;    // that turn back what another table turns
  std::map<int64_t, int32_t> cache_of_layer_; // that the layer's attention reads
  bool embeds_;                               // the Program ends with the hidden state
  const bool encodes_;                        // Ending::encoded
  int64_t shared_caches_ = 0;                 // share_caches(): how many there are in the end
  std::string_view stack_;                    // Model::stack
  NormKind norms_ = NormKind::rms;
  bool bare_norms_ = false;               // Model::bare_norms
  std::map<Rope, int32_t> latent_tables_; // of the rotated parts of latent attention
  core::ValueId chosen_ = -1;             // by the last indexer
  std::set<std::string, std::less<>> used_tensors_;
  struct InputOrder {
    core::WeightId order;
    int64_t group; // inputs that it picks from
  };
  std::map<core::WeightId, InputOrder> order_of_weight_; // of weights whose inputs come in another order
};

} // namespace ridge::models
