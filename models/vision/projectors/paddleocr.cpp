// PaddleOCR-VL.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|IMAGE_START|>", pixel_bound_tile(h, picture, 2 * h.patch()), "<|IMAGE_END|>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::antialiased));
  x = b.layers(x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::split, h.head_dim()})});
  x = b.norm(x, "mm.input_norm", Norm::layer, kEpsilon, h.width());
  x = b.merge(x, 2);
  b.tokens(b.linear(b.activate(b.linear(x, "mm.1"), "mm.activation", b.activation()), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::paddleocr = {.cut = cut, .build = build};

} // namespace ridge::models::vision
