// Talkie 13B.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .norms_behind_rope = true, .rope_factors = false};
  attention.output_bias = false;
  ValueId embedded = -1;
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); },
           .bare_norms = true,
           .logit_scale = h.get_float("logit_scale", 1),
           .begin = [&](ValueId x) { return embedded = b.unit_norm(x, "embd_norm", h.width()); },
           .end_layer =
               [&](ValueId x, int64_t il) {
                 if (il + 1 == h.layers()) embedded = b.gather(embedded);
                 const std::string blk = fmt::format("blk.{}.", il);
                 return b.add(x, b.scaled_by(embedded, blk + "layer_output_scale.weight"), blk + "embd_add");
               }});
}

constinit const ArchitectureFile arch::talkie = {.build = build};

} // namespace ridge::models
