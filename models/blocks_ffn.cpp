// Feed-forward parts: dense, and experts with their routing and the expert that all tokens share.
#include "core/error.h"
#include "models/blocks.h"

#include <cmath>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

ValueId Builder::glu(core::Activation kind, ValueId gate, ValueId x, const std::string& name) {
  return emit(OpKind::glu, name, {gate, x}, width_of(x), {}, core::ActivationParams{kind});
}

// The hidden layer from its matrices: "ffn_gate" and "ffn_up" with the suffix, or "ffn_up" alone.
ValueId Builder::gated_up(ValueId x, const std::string& blk, std::string_view suffix, int64_t width,
                          const ActivationSpec& spec) {
  if (spec.clamp != 0)
    throw_error("{}: {}: clamped activations are not supported yet", file_.path(), program_.architecture);
  const std::string end(suffix);
  const ValueId gate = spec.gated ? linear(x, blk + "ffn_gate" + end, width) : -1;
  const ValueId up = linear(x, blk + "ffn_up" + end, width);
  return activate(gate, up, blk + "swiglu" + end, spec.kind);
}

ValueId Builder::activate(ValueId gate, ValueId up, const std::string& name, core::Activation kind) {
  if (gate >= 0) return glu(kind, gate, up, name);
  return emit(OpKind::activate, name, {up}, width_of(up), {}, core::ActivationParams{kind});
}

ValueId Builder::ffn(ValueId x, int64_t il, const ActivationSpec& activation) {
  const std::string blk = fmt::format("blk.{}.", il);
  return linear(gated_up(x, blk, "", hparams_.ffn_width(il), activation), blk + "ffn_down", hparams_.width());
}

// The expert that every token goes through, weighed by a gate of its own where the file has one.
ValueId Builder::shared_expert(ValueId x, const std::string& blk, const ActivationSpec& activation) {
  const gguf::Tensor* up = file_.find_tensor(blk + "ffn_up_shexp.weight");
  const ValueId hidden = gated_up(x, blk, "_shexp", up->dims[1], activation);
  const ValueId y = linear(hidden, blk + "ffn_down_shexp", hparams_.width());
  if (!has(blk + "ffn_gate_inp_shexp.weight")) return y;
  return glu(core::Activation::sigmoid, linear(x, blk + "ffn_gate_inp_shexp", 1), y, blk + "shexp_gate");
}

// The spec with every field set, as for attention.
RoutingSpec Builder::resolved(RoutingSpec spec, int64_t il) const {
  const Hparams& h = hparams_;
  if (!spec.experts) spec.experts = h.experts();
  if (!spec.used) spec.used = h.experts_used(il);
  if (!spec.width) spec.width = h.expert_width(il);
  if (!spec.normalize) spec.normalize = h.get_bool("expert_weights_norm", true);
  if (!spec.gate) {
    const int64_t gate = h.get_int("expert_gating_func", 0);
    if (gate < 0 || gate > static_cast<int64_t>(core::Gate::softmax_of_chosen))
      h.refuse("expert_gating_func", std::to_string(gate), "gates other than softmax and sigmoid are");
    spec.gate = gate == 0 ? core::Gate::softmax : static_cast<core::Gate>(gate);
  }
  if (!spec.scale) spec.scale = scale_of("expert_weights_scale", 1);
  if (!spec.groups) spec.groups = std::max<int64_t>(1, h.get_int("expert_group_count", 1));
  if (!spec.groups_used) spec.groups_used = *spec.groups > 1 ? h.get_int("expert_group_used_count") : 1;
  const int64_t groups = *spec.groups, groups_used = *spec.groups_used;
  if (groups > *spec.experts || *spec.experts % groups != 0 || groups_used < 1 || groups_used > groups ||
      *spec.used > *spec.experts / groups * groups_used)
    throw_error("{}: {} experts in {} groups, of which {} are used, do not give {} experts per token", file_.path(),
                *spec.experts, groups, groups_used, *spec.used);
  return spec;
}

ValueId Builder::experts(ValueId x, int64_t il, const RoutingSpec& wanted, const ActivationSpec& activation) {
  const std::string blk = fmt::format("blk.{}.", il);
  if (has(blk + "ffn_gate.0.weight"))
    throw_error("{}: has one tensor per expert ({}ffn_gate.0.weight), a layout that was given up in 2024: convert the "
                "model again",
                file_.path(), blk);
  const RoutingSpec spec = resolved(wanted, il);
  const int64_t used = *spec.used, hidden_width = *spec.width;
  const ValueId router = linear(x, blk + "ffn_gate_inp", *spec.experts);
  const ValueId ids = value(blk + "expert_ids", used, gathered(x), core::ValueKind::i32);
  const ValueId shares = value(blk + "expert_shares", used, gathered(x));
  std::vector<WeightId> bias;
  if (spec.selection_bias && has(blk + "exp_probs_b.bias"))
    bias.push_back(vector(blk + "exp_probs_b.bias", *spec.experts));
  program_.ops.push_back({OpKind::route,
                          layer_,
                          blk + "route",
                          {router},
                          {ids, shares},
                          bias,
                          core::RouteParams{*spec.experts, used, *spec.normalize, *spec.gate,
                                            static_cast<float>(*spec.scale), *spec.groups, *spec.groups_used}});

  ValueId inner = x; // what the experts work on
  const std::string to_latent = blk + "ffn_latent_down";
  const bool latent = spec.latent && has(to_latent + ".weight");
  if (latent) inner = linear(x, to_latent, file_.find_tensor(to_latent + ".weight")->dims[1]);
  const int64_t width = width_of(inner);
  const auto multiply = [&](ValueId in, const std::string& name, WeightId id, int64_t rows) {
    return emit(OpKind::expert_linear, name, {in_order_of(id, in), ids}, used * rows, {id}, core::ExpertParams{used});
  };
  const auto expert_linear = [&](ValueId in, const char* name, int64_t cols, int64_t rows) {
    return multiply(in, blk + name, weight(blk + name + ".weight", cols, rows, *spec.experts), rows);
  };
  ValueId gate = -1, up = -1;
  if (const std::string both = blk + "ffn_gate_up_exps"; activation.gated && has(both + ".weight")) {
    const auto half = [&](std::string_view part, int64_t first) {
      const RowSlice rows = {part, 2 * hidden_width, first, hidden_width};
      return multiply(inner, fmt::format("{} {}", both, part), slice(both + ".weight", width, rows, *spec.experts),
                      hidden_width);
    };
    gate = half("gate", 0);
    up = half("up", hidden_width);
  } else {
    if (activation.gated) gate = expert_linear(inner, "ffn_gate_exps", width, hidden_width);
    up = expert_linear(inner, "ffn_up_exps", width, hidden_width);
  }
  const ValueId down =
      expert_linear(activate(gate, up, blk + "swiglu", activation.kind), "ffn_down_exps", hidden_width, width);
  ValueId y = emit(OpKind::expert_sum, blk + "expert_sum", {down, shares}, width, {}, core::ExpertParams{used});
  if (latent) y = linear(y, blk + "ffn_latent_up", hparams_.width());
  if (spec.shared && has(blk + "ffn_up_shexp.weight")) y = add(y, shared_expert(x, blk, activation), blk + "shexp_add");
  return y;
}

} // namespace ridge::models
