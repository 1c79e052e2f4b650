// phi3: Phi 3, 3.5 and 4 (mini). Gate and up share a tensor, long contexts have rope factors of their own. Their
// windows are not used, because files give them where the models do not slide. phimoe (Phi 3.5 MoE) has experts, and
// biases of norms.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

static void build(Builder& b) {
  const AttentionSpec attention = {.rope = Rope::split, .window = 0};
  const bool experts = b.hparams().architecture() == "phimoe";
  b.build({.mixer = [&](core::ValueId x, int64_t il) { return b.attention(x, il, attention); },
           .ffn =
               [&](core::ValueId x, int64_t il) {
                 return experts ? b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax}) : b.ffn(x, il);
               },
           .norm_biases = experts});
}

constinit const ArchitectureFile arch::phi = {.build = build};

} // namespace ridge::models
