// InternVL: tiles of large images, then the whole image.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const int64_t least = h.count_or("preproc_min_tiles", 1, 64), most = h.count_or("preproc_max_tiles", 12, 64);
  std::vector<Part> parts = {{.text = "<img>"}};
  if (picture.width > side || picture.height > side) {
    std::vector<media::Size> sizes;
    for (int64_t a = least; a <= most; ++a)
      for (int64_t b = std::max((least + a - 1) / a, least); b <= most / a; ++b) sizes.push_back({a * side, b * side});
    append_tiles(parts, media::resize_padded(picture, best_size(picture, sizes), media::Filter::bicubic), side);
  }
  parts.push_back({.tile = media::resize(picture, side, side, media::Filter::bicubic)});
  parts.push_back({.text = "</img>"});
  return parts;
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch(), b.has("v.class_embd") ? 1 : 0);
  x = b.add_rows(x, "v.position_embd", b.table_with_class());
  constexpr int64_t kWidthOf6b = 3200, kLayersOf6b = 45; // the 6B encoder has other norms
  const bool is_6b = h.width() == kWidthOf6b && h.layers() == kLayersOf6b;
  x = b.layers(x, {.norm = is_6b ? Norm::rms : Norm::layer, .activation = b.activation()});
  x = b.merge(x, h.count_or("projector.scale_factor", 1, 64));
  x = b.norm(x, "mm.model.mlp.0", Norm::layer, kEpsilon, b.width_of(x));
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.model.mlp.1"), "mm.gelu"), "mm.model.mlp.3"));
}

} // namespace

constinit const ProjectorFile projectors::internvl = {.cut = cut, .build = build};

} // namespace ridge::models::vision
