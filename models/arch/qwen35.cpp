// qwen35 and qwen35moe: Qwen 3.5 and 3.6, dense or with experts and a shared one. Three of four layers are gated delta
// nets, whose value heads take turns among the key heads; attention has a gate on its output and rotates a part of each
// head.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {
      .rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved, .output_gate = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().is_recurrent(il) ? b.delta_net(x, il, false) : b.attention(x, il, attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return b.hparams().experts() == 0
                            ? b.ffn(x, il)
                            : b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
               },
           .ffn_norm = "post_attention_norm"});
}

constinit const ArchitectureFile arch::qwen35 = {.build = build};

} // namespace ridge::models
