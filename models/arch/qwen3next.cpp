// qwen3next: Qwen3-Next and Qwen3-Coder-Next (80B-A3B). Gated delta nets whose value heads next to each other share a
// key head, attention with a gate, experts and a shared one.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .output_gate = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().is_recurrent(il) ? b.delta_net(x, il, true) : b.attention(x, il, attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
               },
           .ffn_norm = "post_attention_norm"});
}

constinit const ArchitectureFile arch::qwen3next = {.build = build};

} // namespace ridge::models
