// What architecture files are written with: a builder that reads a GGUF file's hyperparameters and tensors and appends
// ops to a Program.
//
// Tensors are asked for by their GGUF name without the ".weight"; each is checked against the shape that the
// hyperparameters imply, and a missing or misshapen one is an Error naming it. A sibling ".bias" tensor is picked up
// wherever a file has one.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "models/planar.h"

#include <map>
#include <string>
#include <string_view>

namespace ridge::models {

// Hyperparameters under "<architecture>.": the same keys for every transformer of this family.
struct Hparams {
  int64_t layers, width, context;
  std::vector<int64_t> heads, kv_heads, ffn_width; // per layer
  int64_t k_dim, v_dim;                            // per head
  int64_t rope_dims;
  float norm_epsilon;
  int64_t experts, experts_used; // 0: a dense model
};

struct AttentionStyle {
  core::RopeStyle rope;
  bool qk_norm = false; // RMS norm of each q and k head before rope
};

class Builder {
 public:
  // The architecture is taken from the file.
  explicit Builder(const gguf::File& file);

  const Hparams& hparams() const { return hparams_; }

  core::ValueId embed();
  core::ValueId rms_norm(core::ValueId x, const std::string& tensor);
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows);
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name);
  core::ValueId gather(core::ValueId x);

  // q, k, v, rope, cache, attention and output projection of layer `il`; x is the normed input.
  core::ValueId attention(core::ValueId x, int64_t il, const AttentionStyle& style);
  // down(silu(gate x) * up x)
  core::ValueId ffn(core::ValueId x, int64_t il);
  // The same with the top `experts_used` of `experts`, each `expert_width` wide, shares normalized to 1.
  core::ValueId experts(core::ValueId x, int64_t il, int64_t expert_width);
  // Final norm and the output matrix (the embedding table where a file has none of its own).
  void logits(core::ValueId x);

  // The shape all these families share: pre-norm attention and feed-forward, each added to the residual stream.
  // ffn(normed, layer) appends the feed-forward part.
  template <typename Ffn>
  void transformer(const AttentionStyle& style, Ffn&& ffn);

  int64_t get_int(const char* key) const;                 // "<architecture>.<key>", required
  int64_t get_int(const char* key, int64_t absent) const; // … or a default
  double get_float(const char* key, double absent) const;
  std::string_view get_string(const char* key, std::string_view absent) const;

  core::Program finish() &&; // validated

 private:
  std::string key(const char* name) const;
  std::vector<int64_t> per_layer(const char* key, int64_t absent) const;
  void read_hparams();
  void check_range(const char* what, int64_t value, int64_t low, int64_t high) const;
  int32_t rope_table(core::RopeStyle style);

  core::WeightId weight(const std::string& name, int64_t cols, int64_t rows, int64_t count = 1);
  core::WeightId planar_weight(const PlanarWeight& planar, int64_t cols, int64_t rows, int64_t count);
  // x, or its elements in the order in which the columns of `weight` want them (PlanarWeight::input_order).
  core::ValueId in_order_of(core::WeightId weight, core::ValueId x);
  core::WeightId vector(const std::string& name, int64_t width);
  core::ValueId value(std::string name, int64_t width, bool gathered, core::ValueKind kind = core::ValueKind::f32);
  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  bool gathered(core::ValueId id) const { return program_.values[id].gathered; }

  const gguf::File& file_;
  core::Program program_;
  Hparams hparams_;
  int32_t layer_ = -1;      // the one being built
  int32_t rope_table_ = -1; // built on first use
  struct InputOrder {
    core::WeightId order;
    int64_t group; // inputs that it picks from
  };
  std::map<core::WeightId, InputOrder> order_of_weight_; // of weights whose inputs come in another order
};

template <typename Ffn>
void Builder::transformer(const AttentionStyle& style, Ffn&& ffn) {
  core::ValueId x = embed();
  for (int64_t il = 0; il < hparams_.layers; ++il) {
    layer_ = static_cast<int32_t>(il);
    const std::string blk = "blk." + std::to_string(il) + ".";
    core::ValueId attended = attention(rms_norm(x, blk + "attn_norm"), il, style);
    x = add(x, attended, blk + "attn_add");
    if (il + 1 == hparams_.layers) x = gather(x); // the last feed-forward only for tokens whose logits are wanted
    x = add(x, ffn(rms_norm(x, blk + "ffn_norm"), il), blk + "ffn_add");
  }
  layer_ = -1;
  logits(x);
}

} // namespace ridge::models
