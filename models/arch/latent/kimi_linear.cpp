// kimi-linear: Kimi Linear (48B-A3B). Three of four layers are Kimi delta attention, the others latent attention that
// does not know positions. Experts and a shared one behind a dense layer.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0); // their tensors say how wide they are together
  const LatentSpec attention = {.rope = Rope::none};
  const RoutingSpec routing = {.normalize = true, .selection_bias = true, .shared = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return h.has_attention(il) ? b.latent_attention(x, il, attention)
                                            : b.kimi_delta(x, il, h.norm_epsilon());
               },
           .ffn = [&](ValueId x, int64_t il) { return b.feed_forward(x, il, routing); }});
}

constinit const ArchitectureFile arch::kimi_linear = {.build = build};

} // namespace ridge::models
