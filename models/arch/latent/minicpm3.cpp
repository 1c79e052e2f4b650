// MiniCPM 3 (4B), with scales that are not in files.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const LatentSpec attention = {.rope = Rope::split, .plain_rope = true};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::latent_attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .embedding_scale = 12,
           .residual_scale = 1.4 / std::sqrt(static_cast<double>(h.layers())),
           .logit_scale = 256.0 / static_cast<double>(h.width())});
}

constinit const ArchitectureFile arch::minicpm3 = {.build = build};

} // namespace ridge::models
