// granite, granitemoe and granitehybrid: Granite 3 and 4, dense or with experts and a shared one; in hybrids layers
// without key-value heads are Mamba 2. Embeddings, blocks and logits are scaled. minicpm is the same with scales that
// older files do not state.
#include "models/architecture.h"
#include "models/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool minicpm = h.architecture() == "minicpm";
  // Where the file says that rope's scaling was not tuned, the model has no rope.
  const bool rope = minicpm || h.get_bool("rope.scaling.finetuned", true);
  const AttentionSpec attention = {.rope = rope ? Rope::adjacent : Rope::none};
  Builder::Model model = {
      .mixer = [&](ValueId x,
                   int64_t il) { return h.has_attention(il) ? b.attention(x, il, attention) : b.mamba2(x, il); },
      .ffn =
          [&](ValueId x, int64_t il) {
            return h.experts() == 0
                       ? b.ffn(x, il)
                       : b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
          },
      .scaled = true};
  if (minicpm) {
    model.embedding_scale = 12;
    model.residual_scale = 1.4 / std::sqrt(static_cast<double>(h.layers()));
    model.logit_scale = static_cast<double>(h.width()) / 256;
  }
  b.build(model);
}

constinit const ArchitectureFile arch::granite = {.build = build};

} // namespace ridge::models
