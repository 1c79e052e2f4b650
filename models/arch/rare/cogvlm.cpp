// cogvlm: CogVLM and CogAgent, text only. Pictures would have matrices of their own in every layer.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const char* of_pictures : {"attn_qkv", "attn_output", "gate", "down", "up"})
      b.skip(fmt::format("blk.{}.vis_{}.weight", il, of_pictures));
  b.skip("rope_freqs.weight");
  const AttentionSpec attention = {
      .rope = Rope::split, .rope_base = 10000, .rope_scaling = false, .rope_factors = false, .qkv_thirds = true};
  b.transformer(attention, [&](ValueId x, int64_t il) { return b.ffn(x, il); });
}

constinit const ArchitectureFile arch::cogvlm = {.build = build};

} // namespace ridge::models
