// Mamba, Falcon Mamba, Jamba.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  if (h.architecture() == "mamba") return b.build({.mixer = [&](ValueId x, int64_t il) { return b.mamba(x, il); }});
  b.build(
      {.mixer = [&](ValueId x, int64_t il) { return h.has_attention(il) ? b.attention(x, il, {}) : b.mamba(x, il); },
       .ffn = [&](ValueId x, int64_t il) { // tensors tell which layers have experts
         if (!b.has(fmt::format("blk.{}.ffn_gate_inp.weight", il))) return b.ffn(x, il);
         return b.experts(x, il, {.width = h.ffn_width(il), .normalize = false, .gate = core::Gate::softmax});
       }});
}

constinit const ArchitectureFile arch::mamba = {.build = build};

} // namespace ridge::models
