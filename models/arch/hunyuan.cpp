// hunyuan-dense, hunyuan_vl (its text) and hunyuan-moe: Hunyuan; and maincoder. Heads are normed behind rope; dense
// models may have another base of rope.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool experts = h.architecture() == "hunyuan-moe", sections = !experts && h.has_rope_sections(),
             maincoder = h.architecture() == "maincoder";
  const RopeAxes axes = b.takes_pictures() ? RopeAxes::numbered : RopeAxes::in_order;
  AttentionSpec attention = {.rope = maincoder ? Rope::adjacent : Rope::split,
                             .qk_norm = true,
                             .norms_behind_rope = true,
                             .rope_factors = false,
                             .rope_axes = sections ? axes : RopeAxes::one};
  if (const double alpha = experts ? 0 : h.get_float("rope.scaling.alpha", 0); alpha > 0) {
    const auto dim = static_cast<double>(h.k_dim(0));
    attention.rope_base = h.get_float("rope.freq_base", 10000) * std::pow(alpha, dim / (dim - 2));
  }
  b.transformer(attention, [&](ValueId x, int64_t il) {
    if (!experts) return b.ffn(x, il);
    return b.experts(x, il, {.width = h.ffn_width(il), .normalize = true, .gate = core::Gate::softmax, .shared = true});
  });
}

constinit const ArchitectureFile arch::hunyuan = {.build = build};

} // namespace ridge::models
