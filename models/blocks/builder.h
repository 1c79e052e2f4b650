// Appends ops to a Program from a GGUF file's hyperparameters and tensors.
// Tensor names omit ".weight". Throws Error for missing or misshapen tensors. A linear adds its ".bias" if present.
// Refuses models that would be computed wrongly: unsupported specs, unread hyperparameters (Hparams::refuse_ignored),
// unused tensors (finish).
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/blocks/rope.h"
#include "models/blocks/specs.h"
#include "models/file/hparams.h"
#include "models/file/planar.h"

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

// `rows` rows of a tensor in runs of `run` (0: one run), which are `stride` rows apart.
struct RowSlice {
  std::string_view part;
  int64_t tensor_rows, first, rows, run = 0, stride = 0;
};

enum class NormKind : uint8_t { rms, biased_rms, layer };

class Builder {
 public:
  // `file` must outlive the Program. With `draft_head`, builds that head's Program. `partner`: for a head in its own
  // file the model's; for a model that keeps rows for such a head, the head's file.
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
  // From here on, tokens with rows use the matrix `named` (if not empty) in place of the one they would share.
  using Twin = std::function<std::string(const std::string& tensor)>;
  void take_matrices_of_pictures(Twin named) { twin_ = std::move(named); }
  core::ValueId embed_positions();                                                      // position_embd.weight
  core::ValueId rms_norm(core::ValueId x, const std::string& tensor, double scale = 1); // scales the weights
  core::ValueId unit_norm(core::ValueId x, const std::string& name, int64_t group);     // no weights
  core::ValueId layer_norm(core::ValueId x, const std::string& tensor);                 // with an optional .bias
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows, bool bias = true);
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name, double scale = 1); // scales b
  core::ValueId gather(core::ValueId x);
  core::ValueId scaled_by(core::ValueId x, const std::string& tensor);
  core::ValueId scaled(core::ValueId x, const std::string& name, double factor);

  bool embeds() const { return embeds_; } // the Program ends with the hidden state
  bool encodes() const { return encodes_; }
  void set_start_token(int32_t token) { program_.start_token = token; }

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

  // Draft heads in their own files.
  void eagle_head(const AttentionSpec& attention);
  void dflash_head();

  // Following ops belong to layer `il`. Returns the prefix of its tensors: "blk.3.".
  std::string begin_layer(int64_t il);
  std::string layer_name(int64_t il) const;
  // Marks a tensor that does not affect the logits as used.
  void skip(std::string_view tensor) { used_tensors_.emplace(tensor); }

  core::Program finish() &&; // validated; throws Error for unread hyperparameters and unused tensors

  // For blocks: the Program so far, and what they share.
  core::Program& program() { return program_; }
  const core::Program& program() const { return program_; }
  const gguf::File& file() const { return file_; }
  int32_t layer_index() const { return layer_; } // -1: none
  void leave_layers() { layer_ = -1; }
  NormKind norm_kind() const { return norms_; }
  struct Shared {
    std::map<RopeSpec, int32_t> rope_tables;
    std::map<int32_t, int32_t> tables_back;
    std::map<Rope, int32_t> latent_tables;
    std::map<int64_t, int32_t> cache_of_layer;
    core::ValueId chosen = -1;
    int64_t encoded_caches = 0; // and those beside them
  };
  Shared& shared() { return shared_; }
  const Shared& shared() const { return shared_; }

  // Norm of each `group` of x. The tensor has weights for one group or for the whole row.
  core::ValueId group_norm(core::ValueId x, const std::string& tensor, int64_t group, NormKind kind = NormKind::rms);
  core::ValueId norm(core::ValueId x, const std::string& tensor) { return group_norm(x, tensor, width_of(x), norms_); }
  void scale_weight(core::WeightId id, double scale);
  double scale_of(std::string_view key, double fallback) const;
  core::WeightId weight(const std::string& name, int64_t cols, int64_t rows, int64_t count = 1);
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
  // Permutes x if the columns of `weight` need it (PlanarWeight::input_order).
  core::ValueId in_order_of(core::WeightId weight, core::ValueId x);
  core::WeightId vector(const std::string& name, int64_t width);
  core::WeightId constant(const std::string& name, std::span<const float> values, int64_t rows = 1);
  core::WeightId constant(const std::string& name, int64_t width, float value, int64_t rows = 1);
  core::WeightId integers(const std::string& name, std::span<const int32_t> values);
  core::WeightId flat_vector(const std::string& name, int64_t width);
  void require_f32(const core::Weight& weight) const;
  core::ValueId value(std::string name, int64_t width, bool gathered, core::ValueKind kind = core::ValueKind::f32);
  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  bool gathered(core::ValueId id) const { return program_.values[id].gathered; }
  int64_t width_of(core::ValueId id) const { return program_.values[id].width; }

 private:
  struct Medium { // of rows
    core::ValueId is_text, is_picture, ids;
  };
  Medium medium_of(core::ValueId x);
  core::ValueId linear_of_twins(core::ValueId x, const std::string& tensor, const std::string& twin,
                                const RowSlice& rows);
  core::ValueId final_norm(core::ValueId x, const std::string& tensor, double scale);
  void output_matrix(core::ValueId x, bool bias);
  // `gathers`: only tokens with wanted logits go through the feed-forward part.
  core::ValueId layer(const Model& model, core::ValueId x, int64_t il, bool gathers);
  // What a head in its own file takes from its model: inputs of some layers, combined by a matrix.
  struct TakenRows {
    std::vector<int64_t> layers;
    int64_t width = 0;
    core::Weight matrix;
    std::optional<core::Weight> norm;
    bool norms_result = false; // of the matrix, else its input
    float epsilon = 0;
    int64_t last_layer() const { return std::ranges::max(layers); }
  };
  TakenRows taken_rows();
  void take_row(core::ValueId x, int64_t il);
  core::Weight lend(const std::string& name, int64_t cols, int64_t rows);
  int64_t vocabulary() const;
  core::WeightId draft_table(); // the head's token embeddings, or the model's
  void draft_logits(core::ValueId normed);
  std::vector<int64_t> draft_vocabulary() const; // the model's tokens in a head's reduced vocabulary
  int64_t draft_layer() const { return hparams_.layers() + *draft_head_; }
  std::string draft_name(std::string_view tensor) const {
    return fmt::format("blk.{}.nextn.{}", draft_layer(), tensor);
  }
  double scale_of(const Model& model, std::string_view key, double own) const;
  void end(const Model& model, core::ValueId x, const std::string& norm);
  void build_draft_head(const Model& model);
  [[noreturn]] void refuse_drafts() const;
  void hidden(core::ValueId x, const std::string& norm);
  core::Weight planar_tensor(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  core::WeightId planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  core::WeightId repeated_ids(const std::string& name, int64_t count, int64_t times);
  void refuse_unused_tensors() const;

  const gguf::File& file_;
  const Hparams hparams_;
  core::Program program_;
  Shared shared_;
  const std::optional<int64_t> draft_head_;
  const bool keeps_hidden_;
  const gguf::File* const partner_;
  std::optional<TakenRows> taken_;
  std::vector<core::ValueId> taken_values_;
  Drafts drafts_ = Drafts::none;
  int32_t layer_ = -1;
  bool embeds_;
  const bool encodes_;
  std::string_view stack_;
  NormKind norms_ = NormKind::rms;
  bool bare_norms_ = false;
  std::set<std::string, std::less<>> used_tensors_;
  struct InputOrder {
    core::WeightId order;
    int64_t group;
  };
  std::map<core::WeightId, InputOrder> order_of_weight_;
  std::map<std::string, core::Weight> divided_; // planar ones, of which Programs use parts
  Twin twin_;
  std::map<std::pair<int32_t, bool>, Medium> media_; // by layer, and whether gathered
};

} // namespace ridge::models
