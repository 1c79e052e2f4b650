// SmallThinker (4B-A0.6B, 21B-A3B). The residual before attention selects the experts.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static AttentionSpec attention_of(const Hparams& h, int64_t il) {
  constexpr int64_t kWindow = 4096, kStep = 4; // the file's value is ignored
  AttentionSpec spec = {.rope = Rope::split, .rope_factors = false, .window = 0};
  if (h.get_int("attention.sliding_window", 0) == 0) return spec;
  if (il % kStep == 0 && h.layers() != kStep) spec.rope = Rope::none;
  if (!h.slides(il, kStep, Hparams::Sees::all_first)) return spec;
  spec.window = kWindow;
  spec.rope_base = h.sliding_rope_base();
  return spec;
}

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId router = -1;
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const std::string blk = fmt::format("blk.{}.", il);
                 router = b.linear(x, blk + "ffn_gate_inp", h.experts());
                 return blocks::attention(b, b.rms_norm(x, blk + "attn_norm"), il, attention_of(h, il));
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 if (il + 1 == h.layers()) router = b.gather(router);
                 return blocks::experts(b, x, il, {.normalize = true, .router = router}, {{core::Activation::relu}});
               },
           .mixer_norm = {}});
}

constinit const ArchitectureFile arch::smallthinker = {.build = build};

} // namespace ridge::models
