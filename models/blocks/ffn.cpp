// Feed-forward parts: dense, routed experts, the shared expert.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>
#include <cstring>

namespace ridge::models::blocks {

using core::OpKind;
using core::ValueId;
using core::WeightId;

ValueId glu(Builder& b, core::Activation kind, ValueId gate, ValueId x, const std::string& name) {
  return b.emit(OpKind::glu, name, {gate, x}, b.width_of(x), {}, core::ActivationParams{kind});
}

// From "ffn_gate" and "ffn_up" plus the suffix, from both in "ffn_up", or from "ffn_up" alone.
static ValueId gated_up(Builder& b, ValueId x, const std::string& blk, std::string_view suffix, int64_t width,
                        const ActivationSpec& spec) {
  const std::string gate_tensor = fmt::format("{}ffn_gate{}", blk, suffix),
                    up_tensor = fmt::format("{}ffn_up{}", blk, suffix);
  const std::string name = fmt::format("{}{}{}", blk, spec.gated ? "swiglu" : "activation", suffix);
  if (spec.gated && !b.has(gate_tensor + ".weight") && b.sides_of(up_tensor + ".weight").second == 2 * width) {
    const ValueId gate = b.linear_of(x, up_tensor, {"gate", 2 * width, 0, width});
    return activate(b, gate, b.linear_of(x, up_tensor, {"up", 2 * width, width, width}), name, spec);
  }
  const ValueId gate = spec.gated ? b.linear(x, gate_tensor, width, spec.bias) : -1;
  const ValueId hidden = activate(b, gate, b.linear(x, up_tensor, width, spec.bias), name, spec);
  const std::string scales = blk + "ffn.act.scales";
  if (!spec.divides || !b.has(scales)) return hidden;
  const core::Weight divisors = b.tensor_weight(scales, width, 1, 1);
  b.require_f32(divisors);
  std::vector<float> factors(width);
  std::memcpy(factors.data(), divisors.data, divisors.total_bytes());
  for (float& factor : factors) factor = 1 / factor;
  b.program().ops.back().weights.push_back(b.constant(scales, factors));
  return hidden;
}

ValueId activate(Builder& b, ValueId gate, ValueId up, const std::string& name, const ActivationSpec& spec) {
  if (gate < 0) return activate(b, up, name, spec);
  if (spec.situ_cap > 0) {
    if (spec.situ_up_cap > 0) up = activate(b, up, name + " up cap", {{core::Activation::soft_cap, spec.situ_up_cap}});
    up = glu(b, core::Activation::sigmoid, gate, up, name + " sigmoid");
    return b.emit(OpKind::glu, name, {gate, up}, b.width_of(up), {},
                  core::ActivationParams{core::Activation::soft_cap, spec.situ_cap});
  }
  return b.emit(OpKind::glu, name, {gate, up}, b.width_of(up), {}, spec.activation);
}
ValueId activate(Builder& b, ValueId x, const std::string& name, const ActivationSpec& spec) {
  return b.emit(OpKind::activate, name, {x}, b.width_of(x), {}, spec.activation);
}

ValueId ffn(Builder& b, ValueId x, int64_t il, const ActivationSpec& activation) {
  const std::string blk = b.layer_name(il);
  const int64_t width = activation.width ? *activation.width : b.hparams().ffn_width(il);
  ValueId hidden = gated_up(b, x, blk, "", width, activation);
  if (activation.norm) hidden = b.norm(hidden, blk + "ffn_sub_norm");
  return b.linear(hidden, blk + "ffn_down", b.hparams().width(), activation.bias);
}

ValueId feed_forward(Builder& b, ValueId x, int64_t il, const RoutingSpec& routing, const ActivationSpec& activation) {
  return b.hparams().has_experts(il) ? experts(b, x, il, routing, activation) : ffn(b, x, il, activation);
}

static ValueId shared_expert(Builder& b, ValueId x, const std::string& blk, const ActivationSpec& activation) {
  const int64_t width = std::max<int64_t>(1, b.sides_of(blk + "ffn_down_shexp.weight").first);
  const ValueId hidden = gated_up(b, x, blk, "_shexp", width, activation);
  const ValueId y = b.linear(hidden, blk + "ffn_down_shexp", b.hparams().width());
  if (!b.has(blk + "ffn_gate_inp_shexp.weight")) return y;
  return glu(b, core::Activation::sigmoid, b.linear(x, blk + "ffn_gate_inp_shexp", 1), y, blk + "shexp_gate");
}

RoutingSpec resolved(const Builder& b, RoutingSpec spec, int64_t il) {
  const Hparams& h = b.hparams();
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
  if (!spec.scale) spec.scale = b.scale_of("expert_weights_scale", 1);
  *spec.scale *= spec.scale_of_both;
  if (!spec.groups) spec.groups = std::max<int64_t>(1, h.get_int("expert_group_count", 1));
  if (!spec.groups_used) spec.groups_used = *spec.groups > 1 ? h.get_int("expert_group_used_count") : 1;
  const int64_t groups = *spec.groups, groups_used = *spec.groups_used;
  if (groups > *spec.experts || *spec.experts % groups != 0 || groups_used < 1 || groups_used > groups ||
      *spec.used > *spec.experts / groups * groups_used)
    throw_error("{}: {} experts in {} groups, {} of them used, are too few for {} experts per token", b.file().path(),
                *spec.experts, groups, groups_used, *spec.used);
  return spec;
}

static WeightId expert_bias(Builder& b, const std::string& name, const RowSlice& rows, int64_t experts) {
  if (rows.rows == rows.tensor_rows) return b.flat_vector(name, experts * rows.rows);
  core::Weight bias = b.tensor_weight(name, rows.tensor_rows, experts, 1);
  b.require_f32(bias);
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
  return b.add_weight(std::move(bias));
}

// Table [tokens][used] of expert numbers.
static WeightId experts_of_tokens(Builder& b, const std::string& name, int64_t experts, int64_t used) {
  const gguf::Tensor* tensor = b.file().find_tensor(name);
  b.skip(name);
  if (!tensor || tensor->type != gguf::PlainType::I32 || tensor->dims[0] != used ||
      tensor->dims[1] != b.program().vocab || tensor->weights() != used * b.program().vocab)
    throw_error("{}: tensor {} is missing, or not I32 of shape [{}, {}]", b.file().path(), name, used,
                b.program().vocab);
  std::vector<int32_t> numbers(tensor->weights());
  std::memcpy(numbers.data(), tensor->data.data(), tensor->data.size());
  for (const int32_t number : numbers)
    if (number < 0 || number >= experts)
      throw_error("{}: tensor {} has expert {}, but the model has {}", b.file().path(), name, number, experts);
  return b.integers(name, numbers);
}

ValueId experts(Builder& b, ValueId x, int64_t il, const RoutingSpec& wanted, const ActivationSpec& activation) {
  const std::string blk = b.layer_name(il);
  if (b.has(blk + "ffn_gate.0.weight"))
    throw_error("{}: has one tensor per expert ({}ffn_gate.0.weight), a layout that was dropped in 2024: convert the "
                "model again",
                b.file().path(), blk);
  const RoutingSpec spec = resolved(b, wanted, il);
  const int64_t used = *spec.used, hidden_width = *spec.width;
  const ValueId router = spec.router ? *spec.router : b.linear(x, blk + "ffn_gate_inp", *spec.experts);
  if (spec.share_matrix < 1 || *spec.experts % spec.share_matrix != 0)
    throw_error("{}: {} experts cannot share {} matrices evenly", b.file().path(), *spec.experts, spec.share_matrix);
  const ValueId ids = b.value(blk + "expert_ids", used, b.gathered(x), core::ValueKind::i32);
  const ValueId shares = b.value(blk + "expert_shares", used, b.gathered(x));
  std::vector<WeightId> bias;
  for (const char* name : {"exp_probs_b.bias", "exp_probs_b"})
    if (spec.selection_bias && bias.empty() && b.has(blk + name)) bias.push_back(b.vector(blk + name, *spec.experts));
  if (const std::string scale = blk + "ffn_down_exps.scale"; spec.scales_outputs && b.has(scale)) {
    if (bias.empty()) bias.push_back(b.constant(blk + "no_bias", *spec.experts, 0));
    bias.push_back(b.vector(scale, *spec.experts));
  }
  if (spec.by_token) {
    bias = {b.constant(blk + "no_bias", *spec.experts, 0), b.constant(blk + "no_scale", *spec.experts, 1),
            experts_of_tokens(b, blk + "ffn_gate_tid2eid.weight", *spec.experts, used)};
  }
  b.program().ops.push_back(
      {OpKind::route,
       b.layer_index(),
       blk + "route",
       {router},
       {ids, shares},
       bias,
       core::RouteParams{*spec.experts, used, *spec.normalize, *spec.gate, static_cast<float>(*spec.scale),
                         *spec.groups, *spec.groups_used, spec.by_score, spec.by_sigmoid, spec.share_matrix,
                         static_cast<float>(spec.nearness)}});

  ValueId inner = x;
  const std::string_view kind = b.has(blk + "ffn_routed_down.weight") ? "routed" : "latent";
  const std::string to_latent = fmt::format("{}ffn_{}_down", blk, kind);
  const bool latent = spec.latent && b.has(to_latent + ".weight");
  if (latent) inner = b.linear(x, to_latent, b.sides_of(to_latent + ".weight").second);
  const int64_t width = b.width_of(inner);
  const auto multiply = [&](ValueId in, const std::string& tensor, const std::string& name, WeightId id,
                            const RowSlice& rows) {
    std::vector<WeightId> weights = {id};
    if (b.has(tensor + ".bias")) weights.push_back(expert_bias(b, tensor + ".bias", rows, *spec.experts));
    return b.emit(OpKind::expert_linear, name, {b.in_order_of(id, in), ids}, used * rows.rows, std::move(weights),
                  core::ExpertParams{used});
  };
  const auto expert_linear = [&](ValueId in, std::string_view which, int64_t cols, int64_t rows) {
    const std::string name = fmt::format("{}ffn_{}_{}", blk, which, spec.suffix);
    const WeightId id = b.weight(name + ".weight", cols, rows, *spec.experts / spec.share_matrix);
    return multiply(in, name, name, id, {"", rows, 0, rows});
  };
  ValueId gate = -1, up = -1;
  if (const std::string both = blk + "ffn_gate_up_exps"; activation.gated && b.has(both + ".weight")) {
    const auto half = [&](std::string_view part, int64_t first) {
      const RowSlice rows = {part, 2 * hidden_width, first, hidden_width};
      return multiply(inner, both, fmt::format("{} {}", both, part),
                      b.slice(both + ".weight", width, rows, *spec.experts), rows);
    };
    gate = half("gate", 0);
    up = half("up", hidden_width);
  } else {
    if (activation.gated) gate = expert_linear(inner, "gate", width, hidden_width);
    up = expert_linear(inner, "up", width, hidden_width);
  }
  if (spec.shares_scale_input) {
    // Scaling the gate suffices: up and down are linear, so the scale reaches the result.
    if (gate < 0) throw_error("{}: {}: shares of experts without a gate", b.file().path(), blk);
    gate = glu(b, core::Activation::identity, shares, gate, blk + "share_gate");
  }
  ActivationSpec of_experts = activation;
  if (activation.limit_of_experts) of_experts.activation.limit = *activation.limit_of_experts;
  const ValueId down = expert_linear(activate(b, gate, up, blk + "swiglu", of_experts), "down", hidden_width, width);
  ValueId y = b.emit(OpKind::expert_sum, blk + "expert_sum", {down, shares}, width, {}, core::ExpertParams{used});
  if (const std::string norm = fmt::format("{}ffn_{}_norm", blk, kind); latent && b.has(norm + ".weight"))
    y = b.rms_norm(y, norm);
  if (latent) y = b.linear(y, fmt::format("{}ffn_{}_up", blk, kind), b.hparams().width());
  if (spec.shared && b.has(blk + "ffn_up_shexp.weight"))
    y = b.emit(OpKind::add, blk + "shexp_add", {y, shared_expert(b, x, blk, activation)}, b.width_of(y), {},
               core::AddParams{static_cast<float>(spec.scale_of_both)});
  return y;
}

} // namespace ridge::models::blocks
