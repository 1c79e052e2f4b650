// Gemma 4. Layers with a window have other heads and rope; in the others keys may be values. The last layers of small
// models reuse earlier caches.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static AttentionSpec attention_of(const Hparams& h, int64_t il) {
  const bool slides = h.slides(il, 6);
  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .scale = 1, .window = 0, .v_norm = true, .k_is_v = true};
  spec.k_dim = h.k_dim(il, slides);
  spec.v_dim = h.v_dim(il, slides);
  spec.rope_dims = h.rope_dims(*spec.k_dim, slides);
  spec.block_ahead = slides;
  spec.rope_factors = !slides;
  if (slides) {
    spec.window = h.window();
    spec.rope_base = h.sliding_rope_base(10000);
    spec.rope_divisor = 1;
  }
  if (const int64_t own = h.layers() - h.get_int("attention.shared_kv_layers", 0); il >= own)
    spec.kv_of = own - (slides ? 2 : 1);
  return spec;
}

static ValueId feed_forward(Builder& b, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  const ActivationSpec activation = {.activation = {core::Activation::gelu}};
  const ValueId dense = blocks::ffn(b, b.rms_norm(x, blk + "ffn_norm"), il, activation);
  if (!b.has(blk + "ffn_gate_inp.weight")) return dense;
  const double scale = 1 / std::sqrt(static_cast<double>(b.hparams().width()));
  const ValueId router =
      b.linear(b.rms_norm(x, blk + "ffn_gate_inp.scale", scale), blk + "ffn_gate_inp", b.hparams().experts());
  const RoutingSpec routing = {
      .normalize = true, .gate = core::Gate::softmax, .scale = 1, .router = router, .scales_outputs = true};
  const ValueId chosen = blocks::experts(b, b.rms_norm(x, blk + "pre_ffw_norm_2"), il, routing, activation);
  return b.add(b.rms_norm(dense, blk + "post_ffw_norm_1"), b.rms_norm(chosen, blk + "post_ffw_norm_2"),
               blk + "ffn_combined");
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId inputs = -1;
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(h, il)); },
           .ffn = [&](ValueId x, int64_t il) { return feed_forward(b, x, il); },
           .ffn_norm = {},
           .mixer_post_norm = "post_attention_norm",
           .ffn_post_norm = "post_ffw_norm",
           .embedding_scale = std::sqrt(static_cast<double>(h.width())),
           .soft_cap = h.get_float("final_logit_softcapping", 30),
           .begin =
               [&](ValueId x) {
                 if (const int64_t width = h.get_int("embedding_length_per_layer_input", 0); width != 0)
                   inputs = blocks::layer_inputs(b, x, width);
                 return x;
               },
           .end_layer =
               [&](ValueId x, int64_t il) {
                 if (inputs >= 0) x = blocks::add_layer_input(b, x, inputs, il);
                 const std::string scale = fmt::format("blk.{}.layer_output_scale.weight", il);
                 return b.has(scale) ? b.scaled_by(x, scale) : x;
               }});
}

constinit const ArchitectureFile arch::gemma4 = {.build = build};

} // namespace ridge::models
