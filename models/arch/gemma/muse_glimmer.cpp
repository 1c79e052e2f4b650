#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static AttentionSpec attention_of(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.qk_norm = true, .window = 0, .gate_matrix = true};
  spec.scale = 1 / std::sqrt(static_cast<double>(h.v_dim(il)));
  if (!h.slides(il, 4)) return spec;
  spec.rope = Rope::adjacent;
  spec.rope_factors = false;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base();
  spec.rope_divisor = 1;
  return spec;
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(h, il)); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .mixer_post_norm = "post_attention_norm",
           .ffn_post_norm = "post_ffw_norm",
           .logit_scale = h.get_float("logit_scale", 1),
           .soft_cap = h.get_float("final_logit_softcapping", 30),
           .post_norm_epsilon = 1e-8f,
           .begin = [&](ValueId x) { return b.unit_norm(x, "embd_norm", h.width()); }});
}

constinit const ArchitectureFile arch::muse_glimmer = {.build = build};

} // namespace ridge::models
