// Step3-VL: crops of 504 pixels for large or narrow images, then the whole image.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kCrop = 504;

// Narrow slivers in a square, sides at most preproc_image_size.
media::Picture prepared(const Hparams& h, const media::Picture& picture) {
  constexpr int64_t kSmall = 32, kUsualMost = 3024, kMax = 1 << 16;
  constexpr float kNarrow = 4;
  const float aspect = static_cast<float>(picture.width) / static_cast<float>(picture.height);
  media::Picture made = picture;
  if (std::min(picture.width, picture.height) < kSmall && (aspect > kNarrow || aspect < 1 / kNarrow)) {
    const int64_t side = std::max(picture.width, picture.height);
    made = media::placed(picture, side, side);
  }
  const int64_t most = h.count_or("preproc_image_size", kUsualMost, kMax), longer = std::max(made.width, made.height);
  if (longer <= most) return made;
  const float scale = static_cast<float>(most) / static_cast<float>(longer);
  const auto scaled = [&](int64_t side) {
    return std::max<int64_t>(1, static_cast<int64_t>(std::floor(static_cast<float>(side) * scale)));
  };
  return media::resize(made, scaled(made.width), scaled(made.height), media::Filter::bilinear);
}

// Side of the squares that become crops; 0: none.
int64_t window_of(const media::Picture& picture, int64_t side) {
  constexpr float kLong = 1.5f, kNarrow = 4;
  const int64_t longer = std::max(picture.width, picture.height), shorter = std::min(picture.width, picture.height);
  const float aspect = static_cast<float>(longer) / static_cast<float>(shorter);
  if (longer <= side) return aspect > kLong ? shorter : 0;
  return aspect > kNarrow ? std::min(shorter, kCrop) : kCrop;
}

// Whole windows that a length is resized to; one that is less than a window stays.
int64_t whole_windows(int64_t length, int64_t window) {
  constexpr float kUp = 0.2f;
  const float ratio = static_cast<float>(length) / static_cast<float>(window), whole = std::floor(ratio);
  return ratio < 1 ? length : window * static_cast<int64_t>(ratio - whole > kUp ? whole + 1 : whole);
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const media::Picture whole = prepared(h, picture);
  std::vector<Part> parts;
  if (const int64_t window = window_of(whole, side); window > 0) {
    const media::Picture large = media::resize(whole, whole_windows(whole.width, window),
                                               whole_windows(whole.height, window), media::Filter::bilinear);
    for (int64_t y = 0; y < large.height; y += window) {
      if (y > 0) parts.push_back({.text = "<patch_newline>"});
      for (int64_t x = 0; x < large.width; x += window) {
        const media::Picture crop =
            media::crop(large, x, y, std::min(window, large.width - x), std::min(window, large.height - y));
        parts.push_back({.text = "<patch_start>"});
        parts.push_back({.tile = interpolated_tile(media::placed(crop, window, window), kCrop)});
        parts.push_back({.text = "<patch_end>"});
      }
    }
  }
  parts.push_back({.text = "<im_start>"});
  parts.push_back({.tile = interpolated_tile(whole, side)});
  parts.push_back({.text = "<im_end>"});
  return parts;
}

void build(Builder& b) {
  constexpr int64_t kSide = 3, kMerge = 4;
  const Hparams& h = b.hparams();
  h.count_or("projector.scale_factor", kMerge, kMerge, kMerge);
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::antialiased));
  x = b.layers(x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 2})});
  for (const char* convolution : {"mm.0", "mm.1"}) x = b.convolution(b.around(x, 2), convolution, kSide * kSide);
  b.tokens(b.linear(x, "mm.model.fc"));
}

} // namespace

constinit const ProjectorFile projectors::step3vl = {.cut = cut, .build = build};

} // namespace ridge::models::vision
