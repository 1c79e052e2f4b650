// GroveMoE. The experts' outputs go through adjugate experts, which neighbouring experts share.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const double scale = h.get_float("expert_group_scale", 1);
  const int64_t sharing = h.positive_int("experts_per_group", kMaxExperts), experts = h.experts();
  if (experts < sharing) h.refuse("experts_per_group", std::to_string(sharing), "fewer experts are");
  const int64_t further_width = h.get_int("expert_chunk_feed_forward_length", 0);
  const auto feed_forward = [&](ValueId x, int64_t il) {
    const std::string blk = b.layer_name(il);
    const ValueId scores = b.linear(x, blk + "ffn_gate_inp", experts);
    RoutingSpec routing = {.normalize = true, .gate = core::Gate::softmax, .router = scores, .by_sigmoid = true};
    const ValueId y = blocks::experts(b, x, il, routing);
    routing.used = std::min(h.experts_used(il), experts / sharing);
    routing.width = further_width > 0 ? further_width : h.k_dim(il);
    routing.suffix = "chexps";
    routing.share_matrix = sharing;
    return b.add(y, blocks::experts(b, y, il, routing), blk + "chexps_add", scale);
  };
  b.transformer({.rope = Rope::split, .qk_norm = true, .rope_factors = false}, feed_forward);
}

constinit const ArchitectureFile arch::grovemoe = {.build = build};

} // namespace ridge::models
