// gpt-oss 20B and 120B.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const AttentionSpec full = {.rope = Rope::split, .rope_factors = false, .window = 0, .sinks = true};
  AttentionSpec sliding = full;
  sliding.window = h.window();
  sliding.rope_base = h.sliding_rope_base();
  const RoutingSpec routing = {.normalize = false, .gate = core::Gate::softmax_of_chosen};
  const ActivationSpec activation = {
      .activation = {.kind = core::Activation::silu, .alpha = 1.702f, .limit = 7, .shift = 1}};
  b.build(
      {.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, h.slides(il, 2) ? sliding : full); },
       .ffn = [&](ValueId x, int64_t il) { return blocks::experts(b, x, il, routing, activation); },
       .ffn_norm = "post_attention_norm"});
}

constinit const ArchitectureFile arch::gpt_oss = {.build = build};

} // namespace ridge::models
