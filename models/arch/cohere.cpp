// Command R, R+, R7B and A. In cohere2, layers without a window have no rope; routed and shared experts count half
// each.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static AttentionSpec attention_of(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  if (h.architecture() == "command-r")
    return {.rope = Rope::adjacent, .qk_norm = b.has("blk.0.attn_q_norm.weight"), .rope_factors = false};
  const bool moe = h.architecture() == "cohere2moe";
  const bool slides = h.slides(il, 4, moe ? Hparams::Sees::all_first : Hparams::Sees::all_last);
  const bool rope = slides || (moe && (il < h.get_int("leading_dense_block_count") || il >= h.layers()));
  return {.rope = rope ? Rope::adjacent : Rope::none, .window = slides ? h.get_int("attention.sliding_window") : 0};
}

static RoutingSpec routing_of(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  RoutingSpec spec = {.normalize = h.get_bool("expert_weights_norm", false), .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) spec.gate = core::Gate::sigmoid;
  if (b.has(fmt::format("blk.{}.ffn_up_shexp.weight", il))) spec.scale_of_both = 0.5;
  return spec;
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const double scale = h.get_float("logit_scale", 1);
  const bool rms = h.architecture() == "cohere2moe" && h.get_float("attention.layer_norm_rms_epsilon", 0) != 0;
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(b, il)); },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return h.has_experts(il) ? blocks::experts(b, x, il, routing_of(b, il)) : blocks::ffn(b, x, il);
               },
           .ffn_norm = {},
           .parallel = true,
           .drafts = h.architecture() == "cohere2moe" ? Drafts::normed : Drafts::none,
           .layer_norms = !rms,
           .logit_scale = scale == 0 ? 1 : scale});
}

constinit const ArchitectureFile arch::cohere = {.build = build};

} // namespace ridge::models
