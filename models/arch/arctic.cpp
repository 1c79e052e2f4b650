// Snowflake Arctic, whose experts read the attention's input.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId input = -1;
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 input = x;
                 return blocks::attention(b, b.rms_norm(x, fmt::format("blk.{}.attn_norm", il)), il,
                                          {.rope = Rope::adjacent, .rope_factors = false, .output_bias = false});
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 const std::string blk = fmt::format("blk.{}.", il);
                 if (il + 1 == h.layers()) input = b.gather(input);
                 const ValueId dense = blocks::ffn(b, x, il, {.width = h.width()});
                 const RoutingSpec routing = {.width = h.ffn_width(il), .normalize = true, .gate = core::Gate::softmax};
                 const ValueId chosen = blocks::experts(b, b.rms_norm(input, blk + "ffn_norm_exps"), il, routing);
                 return b.add(dense, chosen, blk + "ffn_both");
               },
           .mixer_norm = {}});
}

constinit const ArchitectureFile arch::arctic = {.build = build};

} // namespace ridge::models
