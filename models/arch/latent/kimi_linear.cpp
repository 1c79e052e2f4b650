// Kimi Linear (48B-A3B) and Ling 3, which adds rope and gates to latent attention.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

template <bool ling>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  LatentSpec attention = {.rope = Rope::none};
  // Vision models have rope sections, whose positions are equal for text.
  if (ling)
    attention = {.rope = h.has_rope_sections() ? Rope::split : Rope::adjacent, .plain_rope = true, .gate = true};
  RoutingSpec routing = {.normalize = true, .selection_bias = true, .shared = true};
  if (ling) routing.normalize = h.get_bool("expert_weights_norm", false);
  const auto feed_forward = [&](ValueId x, int64_t il) {
    if (!ling) return blocks::feed_forward(b, x, il, routing);
    ActivationSpec activation;
    activation.activation.limit = static_cast<float>(h.layer_float("swiglu_clamp_shexp", il, 0));
    activation.activation.limits_activated = true;
    activation.limit_of_experts = static_cast<float>(h.layer_float("swiglu_clamp_exp", il, 0));
    return blocks::feed_forward(b, x, il, routing, activation);
  };
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return h.has_attention(il) ? blocks::latent_attention(b, x, il, attention)
                                            : blocks::kimi_delta(b, x, il, h.norm_epsilon(), ling);
               },
           .ffn = feed_forward});
}

constinit const ArchitectureFile arch::kimi_linear = {.build = build<false>};
constinit const ArchitectureFile arch::ling3 = {.build = build<true>};

} // namespace ridge::models
