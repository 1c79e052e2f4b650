// MiniMax Text 01 and M1. A block's output is added to its normed input times a factor, not to the stream.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <algorithm>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  constexpr int64_t kInterval = 8;
  const Hparams& h = b.hparams();
  const double residual = h.get_float("residual_scale", 1);
  const int64_t layers = h.layers();
  const AttentionSpec attention = {.rope = Rope::split, .rope_factors = false};
  const RoutingSpec routing = {.normalize = true, .gate = core::Gate::softmax, .selection_bias = true};
  ValueId x = b.embed();
  for (int64_t il = 0; il < layers; ++il) {
    const std::string blk = b.begin_layer(il);
    ValueId normed = b.rms_norm(x, blk + "attn_norm");
    const double pace = 1 - static_cast<double>(il) / static_cast<double>(std::max<int64_t>(1, layers - 1)) + 1e-5;
    ValueId y = h.is_recurrent(il, kInterval) ? blocks::lightning_attention(b, normed, il, pace)
                                              : blocks::attention(b, normed, il, attention);
    if (il + 1 == layers) y = b.gather(y), normed = b.gather(normed);
    normed = b.rms_norm(b.add(y, normed, blk + "attn_add", residual), blk + "ffn_norm");
    x = b.add(blocks::experts(b, normed, il, routing), normed, blk + "ffn_add", residual);
  }
  b.logits(x);
}

constinit const ArchitectureFile arch::minimax_01 = {.build = build};

} // namespace ridge::models
