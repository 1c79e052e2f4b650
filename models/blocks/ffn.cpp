// Feed-forward parts: dense, routed experts, the shared expert.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>
#include <cstring>

namespace ridge::models {

using core::OpKind;
using core::ValueId;
using core::WeightId;

ValueId Builder::glu(core::Activation kind, ValueId gate, ValueId x, const std::string& name) {
  return emit(OpKind::glu, name, {gate, x}, width_of(x), {}, core::ActivationParams{kind});
}

// From "ffn_gate" and "ffn_up" plus the suffix, from both in "ffn_up", or from "ffn_up" alone.
ValueId Builder::gated_up(ValueId x, const std::string& blk, std::string_view suffix, int64_t width,
                          const ActivationSpec& spec) {
  const std::string gate_tensor = fmt::format("{}ffn_gate{}", blk, suffix),
                    up_tensor = fmt::format("{}ffn_up{}", blk, suffix);
  const std::string name = fmt::format("{}{}{}", blk, spec.gated ? "swiglu" : "activation", suffix);
  if (spec.gated && !has(gate_tensor + ".weight") && sides_of(up_tensor + ".weight").second == 2 * width) {
    const ValueId gate = linear_of(x, up_tensor, {"gate", 2 * width, 0, width});
    return activate(gate, linear_of(x, up_tensor, {"up", 2 * width, width, width}), name, spec);
  }
  const ValueId gate = spec.gated ? linear(x, gate_tensor, width, spec.bias) : -1;
  const ValueId hidden = activate(gate, linear(x, up_tensor, width, spec.bias), name, spec);
  const std::string scales = blk + "ffn.act.scales";
  if (!spec.divides || !has(scales)) return hidden;
  const core::Weight divisors = tensor_weight(scales, width, 1, 1);
  require_f32(divisors);
  std::vector<float> factors(width);
  std::memcpy(factors.data(), divisors.data, divisors.total_bytes());
  for (float& factor : factors) factor = 1 / factor;
  program_.ops.back().weights.push_back(constant(scales, factors));
  return hidden;
}

ValueId Builder::activate(ValueId gate, ValueId up, const std::string& name, const ActivationSpec& spec) {
  if (gate < 0) return activate(up, name, spec);
  if (spec.situ_cap > 0) {
    if (spec.situ_up_cap > 0) up = activate(up, name + " up cap", {{core::Activation::soft_cap, spec.situ_up_cap}});
    up = glu(core::Activation::sigmoid, gate, up, name + " sigmoid");
    return emit(OpKind::glu, name, {gate, up}, width_of(up), {},
                core::ActivationParams{core::Activation::soft_cap, spec.situ_cap});
  }
  return emit(OpKind::glu, name, {gate, up}, width_of(up), {}, spec.activation);
}
ValueId Builder::activate(ValueId x, const std::string& name, const ActivationSpec& spec) {
  return emit(OpKind::activate, name, {x}, width_of(x), {}, spec.activation);
}

ValueId Builder::ffn(ValueId x, int64_t il, const ActivationSpec& activation) {
  const std::string blk = layer_name(il);
  const int64_t width = activation.width ? *activation.width : hparams_.ffn_width(il);
  ValueId hidden = gated_up(x, blk, "", width, activation);
  if (activation.norm) hidden = norm(hidden, blk + "ffn_sub_norm");
  return linear(hidden, blk + "ffn_down", hparams_.width(), activation.bias);
}

ValueId Builder::feed_forward(ValueId x, int64_t il, const RoutingSpec& routing, const ActivationSpec& activation) {
  return hparams_.has_experts(il) ? experts(x, il, routing, activation) : ffn(x, il, activation);
}

ValueId Builder::shared_expert(ValueId x, const std::string& blk, const ActivationSpec& activation) {
  const int64_t width = std::max<int64_t>(1, sides_of(blk + "ffn_down_shexp.weight").first);
  const ValueId hidden = gated_up(x, blk, "_shexp", width, activation);
  const ValueId y = linear(hidden, blk + "ffn_down_shexp", hparams_.width());
  if (!has(blk + "ffn_gate_inp_shexp.weight")) return y;
  return glu(core::Activation::sigmoid, linear(x, blk + "ffn_gate_inp_shexp", 1), y, blk + "shexp_gate");
}

RoutingSpec Builder::resolved(RoutingSpec spec, int64_t il) const {
  const Hparams& h = hparams_;
  if (!spec.experts) spec.experts = h.experts();
  if (!spec.used) spec.used = h.experts_used(il);
  if (!spec.width) spec.width = h.expert_width(il);
  if (!spec.normalize) spec.normalize = h.get_bool("expert_weights_norm", true);
  if (!spec.gate) {
    const int64_t gate = h.get_int("expert_gating_func", 0);
    if (gate < 0 || gate > static_cast<int64_t>(core::Gate::root_softplus))
      h.refuse("expert_gating_func", std::to_string(gate), "gates other than softmax, sigmoid and sqrt(softplus) are");
    spec.gate = gate == 0 ? core::Gate::softmax : static_cast<core::Gate>(gate);
  }
  if (!spec.scale) spec.scale = scale_of("expert_weights_scale", 1);
  *spec.scale *= spec.scale_of_both;
  if (!spec.groups) spec.groups = std::max<int64_t>(1, h.get_int("expert_group_count", 1));
  if (!spec.groups_used) spec.groups_used = *spec.groups > 1 ? h.get_int("expert_group_used_count") : 1;
  const int64_t groups = *spec.groups, groups_used = *spec.groups_used;
  if (groups > *spec.experts || *spec.experts % groups != 0 || groups_used < 1 || groups_used > groups ||
      *spec.used > *spec.experts / groups * groups_used)
    throw_error("{}: {} experts in {} groups, {} of them used, are too few for {} experts per token", file_.path(),
                *spec.experts, groups, groups_used, *spec.used);
  return spec;
}

WeightId Builder::expert_bias(const std::string& name, const RowSlice& rows, int64_t experts) {
  if (rows.rows == rows.tensor_rows) return flat_vector(name, experts * rows.rows);
  core::Weight bias = tensor_weight(name, rows.tensor_rows, experts, 1);
  require_f32(bias);
  auto copy = std::make_shared<std::vector<std::byte>>();
  for (int64_t e = 0; e < experts; ++e) {
    const std::byte* first = bias.row(e) + rows.first * sizeof(float);
    copy->insert(copy->end(), first, first + rows.rows * sizeof(float));
  }
  bias.part = rows.part;
  bias.cols = experts * rows.rows;
  bias.rows = 1;
  bias.row_bytes = std::ssize(*copy);
  bias.data = copy->data();
  bias.owned = std::move(copy);
  return add_weight(std::move(bias));
}

// Table [tokens][used] of expert numbers.
WeightId Builder::experts_of_tokens(const std::string& name, int64_t experts, int64_t used) {
  const gguf::Tensor* tensor = file_.find_tensor(name);
  skip(name);
  if (!tensor || tensor->type != gguf::PlainType::I32 || tensor->dims[0] != used || tensor->dims[1] != program_.vocab ||
      tensor->weights() != used * program_.vocab)
    throw_error("{}: tensor {} is missing, or not I32 of shape [{}, {}]", file_.path(), name, used, program_.vocab);
  std::vector<int32_t> numbers(tensor->weights());
  std::memcpy(numbers.data(), tensor->data.data(), tensor->data.size());
  for (const int32_t number : numbers)
    if (number < 0 || number >= experts)
      throw_error("{}: tensor {} has expert {}, but the model has {}", file_.path(), name, number, experts);
  return integers(name, numbers);
}

ValueId Builder::experts(ValueId x, int64_t il, const RoutingSpec& wanted, const ActivationSpec& activation) {
  const std::string blk = layer_name(il);
  if (has(blk + "ffn_gate.0.weight"))
    throw_error("{}: has one tensor per expert ({}ffn_gate.0.weight), a layout that was dropped in 2024: convert the "
                "model again",
                file_.path(), blk);
  const RoutingSpec spec = resolved(wanted, il);
  const int64_t used = *spec.used, hidden_width = *spec.width;
  const ValueId router = spec.router ? *spec.router : linear(x, blk + "ffn_gate_inp", *spec.experts);
  if (spec.share_matrix < 1 || *spec.experts % spec.share_matrix != 0)
    throw_error("{}: {} experts cannot share {} matrices evenly", file_.path(), *spec.experts, spec.share_matrix);
  const ValueId ids = value(blk + "expert_ids", used, gathered(x), core::ValueKind::i32);
  const ValueId shares = value(blk + "expert_shares", used, gathered(x));
  std::vector<WeightId> bias;
  for (const char* name : {"exp_probs_b.bias", "exp_probs_b"})
    if (spec.selection_bias && bias.empty() && has(blk + name)) bias.push_back(vector(blk + name, *spec.experts));
  if (const std::string scale = blk + "ffn_down_exps.scale"; spec.scales_outputs && has(scale)) {
    if (bias.empty()) bias.push_back(constant(blk + "no_bias", *spec.experts, 0));
    bias.push_back(vector(scale, *spec.experts));
  }
  if (spec.by_token) {
    bias = {constant(blk + "no_bias", *spec.experts, 0), constant(blk + "no_scale", *spec.experts, 1),
            experts_of_tokens(blk + "ffn_gate_tid2eid.weight", *spec.experts, used)};
  }
  program_.ops.push_back(
      {OpKind::route,
       layer_,
       blk + "route",
       {router},
       {ids, shares},
       bias,
       core::RouteParams{*spec.experts, used, *spec.normalize, *spec.gate, static_cast<float>(*spec.scale),
                         *spec.groups, *spec.groups_used, spec.by_score, spec.by_sigmoid, spec.share_matrix}});

  ValueId inner = x;
  const std::string_view kind = has(blk + "ffn_routed_down.weight") ? "routed" : "latent";
  const std::string to_latent = fmt::format("{}ffn_{}_down", blk, kind);
  const bool latent = spec.latent && has(to_latent + ".weight");
  if (latent) inner = linear(x, to_latent, sides_of(to_latent + ".weight").second);
  const int64_t width = width_of(inner);
  const auto multiply = [&](ValueId in, const std::string& tensor, const std::string& name, WeightId id,
                            const RowSlice& rows) {
    std::vector<WeightId> weights = {id};
    if (has(tensor + ".bias")) weights.push_back(expert_bias(tensor + ".bias", rows, *spec.experts));
    return emit(OpKind::expert_linear, name, {in_order_of(id, in), ids}, used * rows.rows, std::move(weights),
                core::ExpertParams{used});
  };
  const auto expert_linear = [&](ValueId in, std::string_view which, int64_t cols, int64_t rows) {
    const std::string name = fmt::format("{}ffn_{}_{}", blk, which, spec.suffix);
    const WeightId id = weight(name + ".weight", cols, rows, *spec.experts / spec.share_matrix);
    return multiply(in, name, name, id, {"", rows, 0, rows});
  };
  ValueId gate = -1, up = -1;
  if (const std::string both = blk + "ffn_gate_up_exps"; activation.gated && has(both + ".weight")) {
    const auto half = [&](std::string_view part, int64_t first) {
      const RowSlice rows = {part, 2 * hidden_width, first, hidden_width};
      return multiply(inner, both, fmt::format("{} {}", both, part),
                      slice(both + ".weight", width, rows, *spec.experts), rows);
    };
    gate = half("gate", 0);
    up = half("up", hidden_width);
  } else {
    if (activation.gated) gate = expert_linear(inner, "gate", width, hidden_width);
    up = expert_linear(inner, "up", width, hidden_width);
  }
  if (spec.shares_scale_input) {
    // Scaling the gate suffices: up and down are linear, so the scale reaches the result.
    if (gate < 0) throw_error("{}: {}: shares of experts without a gate", file_.path(), blk);
    gate = glu(core::Activation::identity, shares, gate, blk + "share_gate");
  }
  ActivationSpec of_experts = activation;
  if (activation.limit_of_experts) of_experts.activation.limit = *activation.limit_of_experts;
  const ValueId down = expert_linear(activate(gate, up, blk + "swiglu", of_experts), "down", hidden_width, width);
  ValueId y = emit(OpKind::expert_sum, blk + "expert_sum", {down, shares}, width, {}, core::ExpertParams{used});
  if (const std::string norm = fmt::format("{}ffn_{}_norm", blk, kind); latent && has(norm + ".weight"))
    y = rms_norm(y, norm);
  if (latent) y = linear(y, fmt::format("{}ffn_{}_up", blk, kind), hparams_.width());
  if (spec.shared && has(blk + "ffn_up_shexp.weight"))
    y = emit(OpKind::add, blk + "shexp_add", {y, shared_expert(x, blk, activation)}, width_of(y), {},
             core::AddParams{static_cast<float>(spec.scale_of_both)});
  return y;
}

} // namespace ridge::models
