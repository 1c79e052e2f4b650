// Qwen2.5-VL and Qwen2.5-Omni. Most layers have windows of 112 pixels.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

void build(Builder& b) {
  const Hparams& h = b.hparams();
  constexpr int64_t kWindow = 112;
  const int64_t side = qwen_side(h), pattern = h.count("n_wa_pattern", 4096, 0);
  const int64_t window = std::max<int64_t>(1, kWindow / h.patch() / side) * side;
  ValueId x = b.patches(h.patch());
  LayerSpec spec = {.norm = Norm::rms, .activation = b.activation(), .may_swap_ffn = true};
  if (pattern > 0) {
    b.in_squares(window);
    spec.window = window * window;
    spec.in_blocks = [=](int64_t il) { return (il + 1) % pattern != 0; };
  }
  spec.rope = b.rope({core::RopeStyle::split, h.head_dim()});
  x = b.merge(b.layers(x, spec), side);
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.0"), "mm.gelu"), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::qwen25vl = {.cut = qwen_cut, .build = build};

} // namespace ridge::models::vision
