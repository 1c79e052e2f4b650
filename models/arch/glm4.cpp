// GLM 4 to 4.7.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

template <bool experts>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool sections = h.has_rope_sections();
  const AttentionSpec attention = {.rope = experts || sections ? Rope::split : Rope::adjacent,
                                   .qk_norm = b.has("blk.0.attn_q_norm.weight"),
                                   .rope_axes = sections ? RopeAxes::in_order : RopeAxes::one};
  const auto mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); };
  if (!experts)
    return b.build({.mixer = mixer,
                    .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
                    .mixer_post_norm = "post_attention_norm",
                    .ffn_post_norm = "post_ffw_norm"});
  h.get_int("expert_shared_count", 0);
  RoutingSpec routing = {.normalize = h.get_bool("expert_weights_norm", false), .selection_bias = true, .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) routing.gate = core::Gate::sigmoid;
  b.build({.mixer = mixer,
           .ffn = [&](ValueId x, int64_t il) { return blocks::feed_forward(b, x, il, routing); },
           .ffn_norm = "post_attention_norm",
           .drafts = Drafts::normed});
}

constinit const ArchitectureFile arch::glm4 = {.build = build<false>};
constinit const ArchitectureFile arch::glm4_moe = {.build = build<true>};

} // namespace ridge::models
