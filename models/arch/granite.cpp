// Granite 3 and 4, and MiniCPM, whose older files do not state the scales.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static Builder::Model model_of(Builder& b, const AttentionSpec& attention) {
  const Hparams& h = b.hparams();
  return {.mixer =
              [&b, &h, attention](ValueId x, int64_t il) {
                if (!h.has_attention(il)) return blocks::mamba2(b, x, il);
                AttentionSpec spec = attention;
                if (spec.sinks) {
                  spec.window = h.slides(il, 0) ? h.get_int("attention.sliding_window") : 0;
                  if (h.layer_int("attention.rope_pattern", il, 1) == 0) spec.rope = Rope::none;
                }
                return blocks::attention(b, x, il, spec);
              },
          .ffn =
              [&b, &h](ValueId x, int64_t il) {
                return h.experts() == 0
                           ? blocks::ffn(b, x, il)
                           : blocks::experts(b, x, il,
                                             {.normalize = true, .gate = core::Gate::softmax, .shared = true});
              },
          .scaled = true};
}

static void build(Builder& b) {
  // In these files rope.scaling.finetuned = false means no rope.
  const bool rope = b.hparams().get_bool("rope.scaling.finetuned", true);
  b.build(model_of(b, {.rope = rope ? Rope::adjacent : Rope::none}));
}

static void build_sliding(Builder& b) {
  b.hparams().get_bool("rope.scaling.finetuned", true); // says nothing here: layers state their rope
  b.build(model_of(b, {.rope = Rope::adjacent, .sinks = true}));
}

static void build_minicpm(Builder& b) {
  const Hparams& h = b.hparams();
  Builder::Model model = model_of(b, {.rope = Rope::adjacent});
  model.embedding_scale = 12;
  model.residual_scale = 1.4 / std::sqrt(static_cast<double>(h.layers()));
  model.logit_scale = static_cast<double>(h.width()) / 256;
  b.build(model);
}

constinit const ArchitectureFile arch::granite = {.build = build};
constinit const ArchitectureFile arch::granite_sliding = {.build = build_sliding};
constinit const ArchitectureFile arch::minicpm = {.build = build_minicpm};

} // namespace ridge::models
