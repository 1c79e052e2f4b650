// PLaMo 1 and 3.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static AttentionSpec plamo3(const Hparams& h, int64_t il) {
  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .rope_factors = false, .window = 0};
  spec.output_bias = false;
  if (h.get_int("attention.sliding_window", 0) == 0 || !h.slides(il, 8)) return spec;
  spec.window = h.window();
  spec.rope_base = h.sliding_rope_base(10000);
  spec.rope_divisor = 1;
  return spec;
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool third = h.architecture() == "plamo3";
  const AttentionSpec first = {.rope = Rope::split, .rope_factors = false, .output_bias = false};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, third ? plamo3(h, il) : first); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .ffn_norm = third ? "ffn_norm" : "",
           .mixer_post_norm = third ? "post_attention_norm" : "",
           .ffn_post_norm = third ? "post_ffw_norm" : "",
           .parallel = !third});
}

constinit const ArchitectureFile arch::plamo = {.build = build};

} // namespace ridge::models
