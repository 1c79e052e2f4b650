// Llama 4. Tokens are in column order.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  constexpr int64_t kMaxTiles = 3;
  const int64_t side = h.image_size();
  std::vector<Part> parts = {{.text = "<|image_start|>"}};
  if (picture.width > side || picture.height > side) {
    std::vector<media::Size> sizes;
    for (int64_t a = 1; a <= kMaxTiles; ++a)
      for (int64_t b = 1; b <= kMaxTiles; ++b)
        if (a > 1 || b > 1) sizes.push_back({a * side, b * side});
    append_tiles(parts, media::resize_padded(picture, best_size(picture, sizes), media::Filter::bicubic), side);
  }
  parts.push_back({.tile = media::resize(picture, side, side, media::Filter::bicubic)});
  parts.push_back({.text = "<|image_end|>"});
  return parts;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch(), 1);
  x = b.add_rows(x, "v.position_embd", b.table_with_class());
  x = b.layers(
      x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 2, 10000, 1, 1})});
  x = b.merge(x, h.count_or("projector.scale_factor", 1, 64));
  x = b.gelu(b.linear(x, "mm.model.mlp.1"), "mm.gelu.1");
  x = b.gelu(b.linear(x, "mm.model.mlp.2"), "mm.gelu.2");
  b.tokens(b.linear(x, "mm.model.fc"));
  Encoder& encoder = b.encoder();
  for (int64_t i = 0; i < std::ssize(encoder.tokens); ++i)
    encoder.tokens[i] = static_cast<int32_t>(i % encoder.lines * encoder.columns + i / encoder.lines);
}

} // namespace

constinit const ProjectorFile projectors::llama4 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
