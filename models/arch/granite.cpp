// granite, granitemoe and granitehybrid: Granite 3 and 4, dense or with experts and a shared one; in hybrids layers
// without key-value heads are Mamba 2. Embeddings, blocks and logits are scaled.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  // Where the file says that rope's scaling was not tuned, the model has no rope.
  const bool rope = b.hparams().get_bool("rope.scaling.finetuned", true);
  const AttentionSpec attention = {.rope = rope ? Rope::adjacent : Rope::none};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().has_attention(il) ? b.attention(x, il, attention) : b.mamba2(x, il);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return b.hparams().experts() == 0
                            ? b.ffn(x, il)
                            : b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
               },
           .scaled = true});
}

constinit const ArchitectureFile arch::granite = {.build = build};

} // namespace ridge::models
