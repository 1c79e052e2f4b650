// cohere2: Command R7B and A. Attention and feed-forward side by side, layer norms without biases; layers without a
// window have no rope.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t window = h.get_int("attention.sliding_window");
  const double scale = h.get_float("logit_scale", 1);
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const bool slides = h.slides(il, 4);
                 return b.attention(x, il,
                                    {.rope = slides ? Rope::adjacent : Rope::none, .window = slides ? window : 0});
               },
           .ffn = [&](ValueId x, int64_t il) { return b.ffn(x, il); },
           .ffn_norm = {},
           .parallel = true,
           .layer_norms = true,
           .logit_scale = scale == 0 ? 1 : scale});
}

constinit const ArchitectureFile arch::cohere = {.build = build};

} // namespace ridge::models
