// lfm2: LFM 2 and 2.5. Most layers are short gated convolutions. The final norm has the name of an embedding's.
#include "models/architecture.h"
#include "models/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {
      .rope = Rope::split, .qk_norm = true, .window = b.hparams().get_int("attention.sliding_window", 0)};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().has_attention(il) ? b.attention(x, il, attention) : b.short_conv(x, il);
               },
           .ffn = [&](ValueId x, int64_t il) { return b.ffn(x, il); },
           .output_norm = "token_embd_norm"});
}

constinit const ArchitectureFile arch::lfm2 = {.build = build};

} // namespace ridge::models
