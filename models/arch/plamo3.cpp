// PLaMo 3.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static AttentionSpec attention_of(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .rope_factors = false, .window = 0};
  spec.output_bias = false;
  if (h.get_int("attention.sliding_window", 0) == 0 || !h.slides(il, 8)) return spec;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static void build(Builder& b) {
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(b.hparams(), il)); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .mixer_post_norm = "post_attention_norm",
           .ffn_post_norm = "post_ffw_norm"});
}

constinit const ArchitectureFile arch::plamo3 = {.build = build};

} // namespace ridge::models
