// qwen35moe: Qwen 3.5 and 3.6 with experts (35B-A3B, 122B-A10B). Layers as in qwen35, a shared expert with a gate.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .rope_sections = true, .output_gate = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().is_recurrent(il) ? b.delta_net(x, il, false) : b.attention(x, il, attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
               },
           .ffn_norm = "post_attention_norm"});
}

constinit const ArchitectureFile arch::qwen35moe = {.build = build};

} // namespace ridge::models
