// Qwen2-VL.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.layers(
      x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::split, h.head_dim()}), .may_swap_ffn = true});
  x = b.merge(x, qwen_side(h));
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.0"), "mm.gelu"), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::qwen2vl = {.cut = qwen_cut, .build = build};

} // namespace ridge::models::vision
