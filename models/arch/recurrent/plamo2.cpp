// PLaMo 2.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .rope_factors = false};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return h.has_attention(il) ? blocks::attention(b, x, il, attention) : blocks::plamo_mamba(b, x, il);
               },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .mixer_post_norm = "post_attention_norm",
           .ffn_post_norm = "post_ffw_norm"});
}

constinit const ArchitectureFile arch::plamo2 = {.build = build};

} // namespace ridge::models
