// SmolVLM and Idefics 3: tiles, each after its position, then the whole image.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

// Scales the longest side to the file's size, then rounds both sides up to whole tiles.
media::Picture whole_tiles(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  if (!h.has("preproc_image_size")) return dynamic_tile(picture, {side, 1, 1 << 10});
  const int64_t longest = h.count("preproc_image_size", 8192), own = std::max(picture.width, picture.height);
  const auto scaled = [&](int64_t pixels) {
    if (pixels == own) return longest;
    const int64_t made = std::max<int64_t>(1, pixels * longest / own);
    return made + made % 2;
  };
  const media::Picture large =
      media::resize(picture, scaled(picture.width), scaled(picture.height), media::Filter::lanczos);
  const auto up = [&](int64_t pixels) { return (pixels + side - 1) / side * side; };
  return media::resize(large, up(large.width), up(large.height), media::Filter::lanczos);
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const std::string mark = "<fake_token_around_image>";
  const int64_t side = h.image_size();
  const media::Picture large = whole_tiles(h, picture);
  std::vector<Part> parts;
  for (int64_t y = 0; y < large.height; y += side) {
    if (y > 0) parts.push_back({.text = "\n"});
    for (int64_t x = 0; x < large.width; x += side) {
      parts.push_back({.text = fmt::format("{}<row_{}_col_{}>", mark, y / side + 1, x / side + 1)});
      parts.push_back({.tile = media::crop(large, x, y, side, side)});
    }
  }
  parts.push_back({.text = "\n\n"});
  parts.push_back({.text = mark + "<global-img>"});
  const bool keeps = h.has("preproc_image_size");
  parts.push_back({.tile = media::resize(keeps ? large : picture, side, side,
                                         keeps ? media::Filter::lanczos : media::Filter::bicubic)});
  parts.push_back({.text = mark});
  return parts;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.values("v.position_embd.weight", b.columns() * b.lines() * h.width()));
  x = b.layers(x, {.activation = b.activation(), .may_swap_ffn = true});
  b.tokens(b.linear(b.merge(x, h.count_or("projector.scale_factor", 1, 64)), "mm.model.fc"));
}

} // namespace

constinit const ProjectorFile projectors::idefics3 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
