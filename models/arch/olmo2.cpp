// OLMo 2 and 3, EXAONE 4: norms after the blocks instead of before them.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

// Most layers of OLMo 3 have a window, with unscaled rope.
static AttentionSpec olmo_attention(const Hparams& h, int64_t il) {
  const int64_t window = h.get_int("attention.sliding_window", 0);
  const bool slides = window > 0 && h.slides(il, 4);
  return {.rope = Rope::split,
          .qk_norm = true,
          .norms_whole_rows = true,
          .rope_scaling = !slides,
          .rope_factors = false,
          .window = slides ? window : 0};
}

// Only the 32B model (64 layers) has windows; its other layers have no rope.
static AttentionSpec exaone_attention(const Hparams& h, int64_t il) {
  const int64_t window = h.get_int("attention.sliding_window", 4096);
  const bool windows = h.layers() == 64, slides = windows && h.slides(il, 4);
  return {.rope = slides || !windows ? Rope::split : Rope::none, .qk_norm = true, .window = slides ? window : 0};
}

template <AttentionSpec (*attention_of)(const Hparams& h, int64_t il)>
static void build(Builder& b) {
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(b.hparams(), il)); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .mixer_norm = {},
           .ffn_norm = {},
           .mixer_post_norm = "post_attention_norm",
           .ffn_post_norm = "post_ffw_norm"});
}

constinit const ArchitectureFile arch::olmo2 = {.build = build<olmo_attention>};
constinit const ArchitectureFile arch::exaone4 = {.build = build<exaone_attention>};

} // namespace ridge::models
