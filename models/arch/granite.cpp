// Granite 3 and 4, and MiniCPM, whose older files do not state the scales.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool minicpm = h.architecture() == "minicpm";
  // In these files rope.scaling.finetuned = false means no rope.
  const bool rope = minicpm || h.get_bool("rope.scaling.finetuned", true);
  AttentionSpec attention = {.rope = rope ? Rope::adjacent : Rope::none};
  if (h.architecture() == "granite_swa") attention = {.rope = Rope::adjacent, .sinks = true};
  Builder::Model model = {
      .mixer =
          [&](ValueId x, int64_t il) {
            if (!h.has_attention(il)) return blocks::mamba2(b, x, il);
            AttentionSpec spec = attention;
            if (spec.sinks) {
              spec.window = h.slides(il, 0) ? h.get_int("attention.sliding_window") : 0;
              if (h.layer_int("attention.rope_pattern", il, 1) == 0) spec.rope = Rope::none;
            }
            return blocks::attention(b, x, il, spec);
          },
      .ffn =
          [&](ValueId x, int64_t il) {
            return h.experts() == 0
                       ? blocks::ffn(b, x, il)
                       : blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
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
