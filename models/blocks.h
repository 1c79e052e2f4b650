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
#include "models/hparams.h"
#include "models/planar.h"
#include "models/specs.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ridge::models {

class Builder {
 public:
  // The architecture is the one that the file names. `file` must outlive the Program.
  explicit Builder(const gguf::File& file);

  const Hparams& hparams() const { return hparams_; }

  core::ValueId embed();
  core::ValueId rms_norm(core::ValueId x, const std::string& tensor);
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows);
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name);
  core::ValueId gather(core::ValueId x);

  // From the normed input x [width] to what is added to the residual stream [width], with the tensors of layer `il`.
  core::ValueId attention(core::ValueId x, int64_t il, const AttentionSpec& spec); // q, k, v, rope, cache, output
  core::ValueId ffn(core::ValueId x, int64_t il, const ActivationSpec& activation = {});
  core::ValueId experts(core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                        const ActivationSpec& activation = {});

  // Final norm and the output matrix; that is the embedding table where the file has no output matrix.
  void logits(core::ValueId x);

  // Pre-norm attention and feed-forward, each added to the residual stream, for all layers, and the logits.
  // ffn(normed, layer) appends the feed-forward part.
  using Ffn = std::function<core::ValueId(core::ValueId x, int64_t il)>;
  void transformer(const AttentionSpec& spec, const Ffn& ffn);

  // Ops appended from here on belong to layer `il`. Returns the prefix of its tensors' names, "blk.3.".
  std::string begin_layer(int64_t il);
  // A tensor that a file may have and that the logits do not depend on.
  void skip(std::string_view tensor) { used_tensors_.emplace(tensor); }

  core::Program finish() &&; // validated

 private:
  // RMS norm of each `group` of x.
  core::ValueId group_norm(core::ValueId x, const std::string& tensor, int64_t group);
  core::ValueId rope(core::ValueId x, const std::string& name, const AttentionSpec& spec);
  core::ValueId activate(core::ValueId gate, core::ValueId up, const std::string& name, const ActivationSpec& spec);
  int32_t rope_table(core::RopeStyle style, int64_t dims);
  AttentionSpec resolved(AttentionSpec spec, int64_t il) const;
  RoutingSpec resolved(RoutingSpec spec, int64_t il) const;

  core::WeightId weight(const std::string& name, int64_t cols, int64_t rows, int64_t count = 1);
  core::WeightId planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  // x, or its elements in the order in which the columns of `weight` want them (PlanarWeight::input_order).
  core::ValueId in_order_of(core::WeightId weight, core::ValueId x);
  core::WeightId vector(const std::string& name, int64_t width);
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  void refuse_unused_tensors() const;

  core::ValueId value(std::string name, int64_t width, bool gathered, core::ValueKind kind = core::ValueKind::f32);
  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  bool gathered(core::ValueId id) const { return program_.values[id].gathered; }
  int64_t width_of(core::ValueId id) const { return program_.values[id].width; }

  const gguf::File& file_;
  const Hparams hparams_;
  core::Program program_;
  int32_t layer_ = -1;                                                 // that ops are appended to
  std::map<std::pair<core::RopeStyle, int64_t>, int32_t> rope_tables_; // by style and rotated dimensions
  std::set<std::string, std::less<>> used_tensors_;
  struct InputOrder {
    core::WeightId order;
    int64_t group; // inputs that it picks from
  };
  std::map<core::WeightId, InputOrder> order_of_weight_; // of weights whose inputs come in another order
};

} // namespace ridge::models
