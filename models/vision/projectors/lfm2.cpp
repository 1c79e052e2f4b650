// LFM2-VL: tiles of 512 pixels, then the whole image.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kTile = 512, kMinTiles = 2, kMaxTiles = 10, kMinTokens = 64, kMaxTokens = 256;

int64_t side_of(const Hparams& h) { return h.count_or("projector.scale_factor", 1, 64); }

bool is_large(const Hparams& h, const media::Picture& picture) {
  const auto factor = static_cast<double>(side_of(h) * h.patch());
  const auto tokens = [&](int64_t pixels) {
    return std::max(1.0, std::nearbyint(static_cast<double>(pixels) / factor));
  };
  return tokens(picture.width) * tokens(picture.height) > 2 * kMaxTokens;
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  media::Picture whole =
      dynamic_tile(picture, {side_of(h) * h.patch(), kMinTokens, kMaxTokens, media::Filter::bilinear, false});
  if (!is_large(h, picture)) return wrapped("<|image_start|>", std::move(whole), "<|image_end|>");
  const media::Size grid = nearest_grid(picture, kMinTiles, kMaxTiles, kTile);
  const media::Picture large =
      media::resize_padded(picture, {grid.width * kTile, grid.height * kTile}, media::Filter::bilinear);
  std::vector<Part> parts = {{.text = "<|image_start|>"}};
  for (int64_t y = 0; y < grid.height; ++y)
    for (int64_t x = 0; x < grid.width; ++x) {
      parts.push_back({.text = fmt::format("<|img_row_{}_col_{}|>", y + 1, x + 1)});
      parts.push_back({.tile = media::crop(large, x * kTile, y * kTile, kTile, kTile)});
    }
  parts.push_back({.text = "<|img_thumbnail|>"});
  parts.push_back({.tile = std::move(whole)});
  parts.push_back({.text = "<|image_end|>"});
  return parts;
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::antialiased));
  x = b.layers(x, {.activation = b.activation()});
  x = b.merge_padded(x, side_of(h));
  if (b.has("mm.input_norm.weight")) x = b.norm(x, "mm.input_norm", Norm::layer, kEpsilon, b.width_of(x));
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.1"), "mm.gelu"), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::lfm2 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
