// lfm2moe: LFM 2 with experts (8B-A1B) behind some dense layers.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const int64_t dense = b.hparams().get_int("leading_dense_block_count", 0);
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().has_attention(il) ? b.attention(x, il, attention) : b.short_conv(x, il);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return il < dense ? b.ffn(x, il) : b.experts(x, il, {.normalize = true, .selection_bias = true});
               },
           .output_norm = "token_embd_norm"});
}

constinit const ArchitectureFile arch::lfm2moe = {.build = build};

} // namespace ridge::models
