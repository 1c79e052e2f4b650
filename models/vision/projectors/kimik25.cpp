// Kimi K2.5 and GLM-5.2-V.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("projector.scale_factor", 1, 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t factor = side_of(h) * h.patch(), square = factor * factor;
  const PixelBounds usual = {2 * square, 4096 * square};
  std::vector<Part> parts =
      wrapped("<|begin_of_image|>", pixel_bound_tile(h, picture, factor, usual), "<|end_of_image|>");
  parts.front().otherwise = "<|media_begin|>";
  parts.back().otherwise = "<|media_end|>";
  return parts;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::cubic));
  x = b.layers(x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 2})});
  x = b.norm(b.merge(x, side_of(h)), "mm.input_norm", Norm::layer, h.epsilon(), h.width());
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.1"), "mm.gelu"), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::kimik25 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
