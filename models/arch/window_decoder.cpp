// Decoders with windows in some layers: Mellum, Maple, MiMo V2, Step 3.5, Laguna, Spark 2.5.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge::models {
namespace {

using core::Activation;
using core::Gate;
using core::ValueId;

AttentionSpec mellum(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  const bool slides = h.get_int("attention.sliding_window", 0) > 0 && h.slides(il, 4);
  // Layers with a window have the same base of rope, unscaled.
  return {.rope = Rope::split,
          .qk_norm = true,
          .rope_scaling = !slides,
          .rope_factors = false,
          .window = slides ? h.window() : 0};
}

AttentionSpec maple(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  AttentionSpec spec = {.qk_norm = true, .window = 0};
  if (!h.slides(il, 1)) return spec;
  spec.rope = Rope::split;
  spec.rope_factors = false;
  spec.rope_base = h.sliding_rope_base();
  spec.rope_dims = h.rope_dims(h.k_dim(il), true);
  spec.window = h.window();
  return spec;
}

AttentionSpec sliding(AttentionSpec spec, const Hparams& h) {
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

AttentionSpec mimo2(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  AttentionSpec spec = {.rope = Rope::split, .rope_factors = false, .window = 0};
  spec.sinks = b.has(fmt::format("blk.{}.attn_sinks.weight", il));
  spec.qkv_bias = spec.output_bias = false;
  if (!h.slides(il, 1)) return spec;
  return sliding(spec, h);
}

AttentionSpec step35(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  const std::string blk = fmt::format("blk.{}.", il);
  const bool slides = h.slides(il, 1);
  const int64_t k_dim = h.k_dim(il), dims = h.rope_dims(k_dim, slides);
  AttentionSpec spec = {.rope = Rope::split,
                        .qk_norm = b.has(blk + "attn_q_norm.weight"),
                        .rope_dims = slides ? dims : dims / 2,
                        .rope_factors = !slides,
                        .window = 0,
                        .gate_matrix = b.has(blk + "attn_gate.weight")};
  if (!slides) return spec;
  return sliding(spec, h);
}

AttentionSpec spark(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  const bool slides = h.slides(il, 1);
  AttentionSpec spec = {.rope = Rope::split,
                        .rope_dims = h.rope_dims(h.k_dim(il), slides),
                        .rope_factors = false,
                        .window = slides ? h.window() : 0,
                        .gate_matrix = true};
  if (slides) spec.rope_base = h.sliding_rope_base();
  return spec;
}

AttentionSpec laguna(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  const bool slides = h.get_int("attention.sliding_window", 0) > 0 && h.slides(il, 4, Hparams::Sees::all_first);
  AttentionSpec spec = {.rope = Rope::split,
                        .qk_norm = true,
                        .rope_dims = h.rope_dims(h.k_dim(il), slides),
                        .rope_factors = false,
                        .window = slides ? h.window() : 0,
                        .gate = Activation::softplus,
                        .gate_matrix = true};
  if (!slides) return spec;
  spec.rope_base = h.sliding_rope_base();
  spec.rope_scaling = false;
  return spec;
}

struct Kind {
  std::string_view name;
  AttentionSpec (*attention)(Builder& b, int64_t il);
  RoutingSpec routing = {};
  ActivationSpec activation = {};
  bool scales_output = false;
  bool limits_experts = false, limits_shared = false;
  Drafts drafts = Drafts::none;
};

constexpr ActivationSpec kGelu = {{Activation::gelu}},
                         kLimited = {{.kind = Activation::silu, .limits_activated = true}};
constexpr auto kKinds = std::to_array<Kind>({
    {.name = "laguna", .attention = laguna, .routing = {.selection_bias = true, .shared = true}},
    {.name = "maple",
     .attention = maple,
     .routing = {.normalize = true, .gate = Gate::softmax, .scale = 1},
     .limits_experts = true},
    {.name = "mellum", .attention = mellum, .routing = {.normalize = true, .gate = Gate::softmax}},
    {.name = "mimo2",
     .attention = mimo2,
     .routing = {.normalize = true, .gate = Gate::sigmoid, .selection_bias = true},
     .scales_output = true,
     .drafts = Drafts::residual},
    {.name = "spark2_5", .attention = spark, .activation = kGelu},
    {.name = "step35",
     .attention = step35,
     .routing = {.selection_bias = true, .shared = true},
     .activation = kLimited,
     .limits_experts = true,
     .limits_shared = true,
     .drafts = Drafts::residual},
});

// A dense part beside the experts is unused.
ValueId experts(Builder& b, ValueId x, int64_t il, const Kind& kind, const ActivationSpec& activation) {
  const std::string blk = fmt::format("blk.{}.", il);
  if (!b.has(blk + "ffn_gate_inp.weight")) return blocks::ffn(b, x, il, activation);
  for (const char* dense : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) b.skip(blk + dense);
  RoutingSpec routing = kind.routing;
  if (!routing.normalize) routing.normalize = b.hparams().get_bool("expert_weights_norm", false);
  if (!routing.gate && b.hparams().get_int("expert_gating_func", 0) == 0) routing.gate = Gate::sigmoid;
  return blocks::experts(b, x, il, routing, activation);
}

ActivationSpec limited(const Hparams& h, const Kind& kind, int64_t il) {
  ActivationSpec spec = kind.activation;
  if (kind.limits_experts) spec.limit_of_experts = static_cast<float>(h.layer_float("swiglu_clamp_exp", il, 0));
  if (kind.limits_shared) spec.activation.limit = static_cast<float>(h.layer_float("swiglu_clamp_shexp", il, 0));
  return spec;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const Kind& kind = *std::ranges::find(kKinds, h.architecture(), &Kind::name);
  h.get_int("expert_shared_count", 0);
  h.get_int("leading_dense_block_count", 0);
  const auto output_scale = static_cast<float>(kind.scales_output ? h.get_float("attention.value_scale", 1) : 1);
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const ValueId y = blocks::attention(b, x, il, kind.attention(b, il));
                 if (output_scale == 0 || output_scale == 1) return y;
                 return blocks::activate(b, y, fmt::format("blk.{}.attn_scale", il),
                                         {{Activation::identity, output_scale}});
               },
           .ffn = [&](ValueId x, int64_t il) { return experts(b, x, il, kind, limited(h, kind, il)); },
           .drafts = kind.drafts});
}

} // namespace

constinit const ArchitectureFile arch::window_decoder = {.build = build};

} // namespace ridge::models
