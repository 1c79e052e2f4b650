// Command R, R+, R7B and A. In cohere2, layers without a window have no rope; routed and shared experts count half
// each.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static AttentionSpec of_command_r(Builder& b, int64_t) {
  return {.rope = Rope::adjacent, .qk_norm = b.has("blk.0.attn_q_norm.weight"), .rope_factors = false};
}

static AttentionSpec sliding(const Hparams& h, bool slides, bool rope) {
  return {.rope = rope ? Rope::adjacent : Rope::none, .window = slides ? h.get_int("attention.sliding_window") : 0};
}

static AttentionSpec of_cohere2(Builder& b, int64_t il) {
  const bool slides = b.hparams().slides(il, 4, Hparams::Sees::all_last);
  return sliding(b.hparams(), slides, slides);
}

static AttentionSpec of_cohere2_moe(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  const bool slides = h.slides(il, 4, Hparams::Sees::all_first);
  return sliding(h, slides, slides || il < h.get_int("leading_dense_block_count") || il >= h.layers());
}

static RoutingSpec routing_of(Builder& b, int64_t il) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  RoutingSpec spec = {.normalize = h.get_bool("expert_weights_norm", false), .shared = true};
  if (h.get_int("expert_gating_func", 0) == 0) spec.gate = core::Gate::sigmoid;
  if (b.has(fmt::format("blk.{}.ffn_up_shexp.weight", il))) spec.scale_of_both = 0.5;
  return spec;
}

template <AttentionSpec (*attention_of)(Builder& b, int64_t il), bool moe>
static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const double scale = h.get_float("logit_scale", 1);
  const bool rms = moe && h.get_float("attention.layer_norm_rms_epsilon", 0) != 0;
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention_of(b, il)); },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return h.has_experts(il) ? blocks::experts(b, x, il, routing_of(b, il)) : blocks::ffn(b, x, il);
               },
           .ffn_norm = {},
           .parallel = true,
           .drafts = moe ? Drafts::normed : Drafts::none,
           .layer_norms = !rms,
           .logit_scale = scale == 0 ? 1 : scale});
}

constinit const ArchitectureFile arch::cohere = {.build = build<of_command_r, false>};
constinit const ArchitectureFile arch::cohere2 = {.build = build<of_cohere2, false>};
constinit const ArchitectureFile arch::cohere2_moe = {.build = build<of_cohere2_moe, true>};

} // namespace ridge::models
