// Mamba, Falcon Mamba, Jamba.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::mamba(b, x, il); }});
}

static void build_jamba(Builder& b) {
  const Hparams& h = b.hparams();
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return h.has_attention(il) ? blocks::attention(b, x, il, {}) : blocks::mamba(b, x, il);
               },
           .ffn = [&](ValueId x, int64_t il) { // tensors tell which layers have experts
             if (!b.has(fmt::format("blk.{}.ffn_gate_inp.weight", il))) return blocks::ffn(b, x, il);
             return blocks::experts(b, x, il,
                                    {.width = h.ffn_width(il), .normalize = false, .gate = core::Gate::softmax});
           }});
}

constinit const ArchitectureFile arch::mamba = {.build = build};
constinit const ArchitectureFile arch::jamba = {.build = build_jamba};

} // namespace ridge::models
