// Grok 1 and 2.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <numbers>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  AttentionSpec attention = {.rope = Rope::split, .rope_factors = false};
  attention.scale = h.get_float("attention.output_scale", 0.08838834764831845);
  attention.soft_cap = h.get_float("attn_logit_softcapping", 30);
  h.get_float("router_logit_softcapping", 0); // no release uses it
  const ActivationSpec gelu = {{core::Activation::gelu}};
  const auto feed_forward = [&](ValueId x, int64_t il) {
    const std::string blk = fmt::format("blk.{}.", il);
    const ValueId chosen = blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax}, gelu);
    if (!b.has(blk + "ffn_up.weight")) return chosen;
    return blocks::activate(b, b.add(blocks::ffn(b, x, il, gelu), chosen, blk + "ffn_both"), blk + "ffn_half",
                            {{core::Activation::identity, static_cast<float>(std::numbers::sqrt2 / 2)}});
  };
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn = feed_forward,
           .mixer_post_norm = "attn_output_norm",
           .ffn_post_norm = b.has("blk.0.layer_output_norm.weight") ? "layer_output_norm" : "post_ffw_norm",
           .embedding_scale = h.get_float("embedding_scale", 78.38367176906169),
           .logit_scale = h.get_float("logit_scale", 0.5773502691896257),
           .soft_cap = h.get_float("final_logit_softcapping", 0)});
}

constinit const ArchitectureFile arch::grok = {.build = build};

} // namespace ridge::models
