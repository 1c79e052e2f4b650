#include "models/vision/cuts.h"

namespace ridge::models::vision {

media::Picture dynamic_tile(const media::Picture& picture, const DynamicCut& cut) {
  const int64_t square = cut.factor * cut.factor;
  const media::Size size =
      media::smart_size({picture.width, picture.height}, cut.factor, cut.least * square, cut.most * square);
  return cut.pads ? media::resize_padded(picture, size.width, size.height, cut.filter)
                  : media::resize(picture, size.width, size.height, cut.filter);
}

media::Picture pixel_bound_tile(const Hparams& h, const media::Picture& picture, int64_t factor,
                                std::optional<PixelBounds> otherwise) {
  constexpr int64_t kMax = 1 << 26;
  if (!otherwise || (h.has("image_min_pixels") && h.has("image_max_pixels")))
    otherwise = {h.count("image_min_pixels", kMax), h.count("image_max_pixels", kMax)};
  const media::Size size =
      media::smart_size({picture.width, picture.height}, factor, otherwise->least, otherwise->most);
  return media::resize_padded(picture, size, media::Filter::bicubic);
}

media::Size best_size(const media::Picture& picture, std::span<const media::Size> sizes) {
  if (sizes.empty()) throw_error("an image cannot be cut into tiles: no tile sizes are given");
  media::Size best = {};
  int64_t most = -1, least_waste = 0;
  for (const media::Size& size : sizes) {
    const float scale = std::min(static_cast<float>(size.width) / static_cast<float>(picture.width),
                                 static_cast<float>(size.height) / static_cast<float>(picture.height));
    const auto fit = [&](int64_t pixels) { return static_cast<int64_t>(static_cast<float>(pixels) * scale); };
    const int64_t effective = std::min(fit(picture.width) * fit(picture.height), picture.width * picture.height);
    const int64_t waste = size.width * size.height - effective;
    if (effective < most || (effective == most && waste >= least_waste)) continue;
    best = size;
    most = effective;
    least_waste = waste;
  }
  return best;
}

media::Size nearest_grid(const media::Picture& picture, int64_t least, int64_t most, int64_t side) {
  std::vector<media::Size> grids;
  for (int64_t width = 1; width <= most; ++width)
    for (int64_t height = 1; width * height <= most; ++height)
      if (width * height >= least) grids.push_back({width, height});
  std::ranges::stable_sort(grids, {}, [](const media::Size& grid) { return grid.width * grid.height; });
  const float wanted = static_cast<float>(picture.width) / static_cast<float>(picture.height);
  const int64_t pixels = picture.width * picture.height;
  media::Size best = {1, 1};
  float least_difference = std::numeric_limits<float>::max();
  for (const media::Size& grid : grids) {
    const float difference = std::abs(wanted - static_cast<float>(grid.width) / static_cast<float>(grid.height));
    const bool fits_better = 2 * pixels > side * side * grid.width * grid.height;
    if (difference < least_difference || (difference == least_difference && fits_better)) best = grid;
    least_difference = std::min(least_difference, difference);
  }
  return best;
}

void append_tiles(std::vector<Part>& parts, const media::Picture& picture, int64_t side) {
  for (int64_t y = 0; y + side <= picture.height; y += side)
    for (int64_t x = 0; x + side <= picture.width; x += side)
      parts.push_back({.tile = media::crop(picture, x, y, side, side)});
}

namespace {

int64_t to_multiple(int64_t length, int64_t factor, bool to_even) {
  const float exact = static_cast<float>(length) / static_cast<float>(factor),
              whole = to_even ? std::nearbyint(exact) : std::round(exact);
  return std::max(static_cast<int64_t>(whole * static_cast<float>(factor)), factor);
}

// The grid with the closest aspect ratio among those with about as many slices as the image's area needs.
media::Size slice_grid(const media::Picture& picture, int64_t side) {
  constexpr int64_t kMaxSlices = 9;
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  const auto wanted = static_cast<int64_t>(
      std::min(std::ceil(w * h / static_cast<float>(side * side)), static_cast<float>(kMaxSlices)));
  const float ratio = std::log(w / h);
  media::Size best = {1, 1};
  float least = std::numeric_limits<float>::infinity();
  for (const int64_t count : {wanted - 1, wanted, wanted + 1})
    for (int64_t columns = 1; columns <= count && count != 1 && count <= kMaxSlices; ++columns) {
      if (count % columns != 0) continue;
      const media::Size grid = {columns, count / columns};
      const auto error = static_cast<float>(
          std::abs(ratio - std::log(static_cast<double>(grid.width) / static_cast<double>(grid.height))));
      if (error < least) best = grid;
      least = std::min(least, error);
    }
  return best;
}

} // namespace

media::Size area_size(media::Size size, const Slices& slices, bool grows) {
  const int64_t side = slices.side;
  if (grows || size.width * size.height > side * side) {
    const float ratio = static_cast<float>(size.width) / static_cast<float>(size.height);
    size.height = static_cast<int64_t>(static_cast<float>(side) / std::sqrt(ratio));
    size.width = static_cast<int64_t>(static_cast<float>(size.height) * ratio);
  }
  return {to_multiple(size.width, slices.factor, slices.to_even),
          to_multiple(size.height, slices.factor, slices.to_even)};
}

void append_slices(std::vector<Part>& parts, const media::Picture& picture, const Slices& slices,
                   const std::string& before, const std::string& behind) {
  const media::Size grid = slice_grid(picture, slices.side);
  const auto of_grid = [&](int64_t length, int64_t count) {
    return to_multiple(length, count, slices.to_even) / count;
  };
  const media::Size slice =
      area_size({of_grid(picture.width, grid.width), of_grid(picture.height, grid.height)}, slices, true);
  const media::Size size = {slice.width * grid.width, slice.height * grid.height};
  const media::Picture large = slices.pads ? media::resize_padded(picture, size, media::Filter::bicubic)
                                           : media::resize(picture, size.width, size.height, media::Filter::bicubic);
  for (int64_t y = 0; y < grid.height; ++y) {
    if (y > 0) parts.push_back({.text = "\n"});
    for (int64_t x = 0; x < grid.width; ++x) {
      parts.push_back({.text = before});
      parts.push_back({.tile = media::crop(large, x * slice.width, y * slice.height, slice.width, slice.height)});
      parts.push_back({.text = behind});
    }
  }
}

int64_t qwen_side(const Hparams& h) { return h.count_or("spatial_merge_size", 2, 2, 2); }

std::vector<Part> qwen_cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|vision_start|>", dynamic_tile(picture, {qwen_side(h) * h.patch(), 8, 4096}), "<|vision_end|>");
}

bool gemma4_sees_ahead(int64_t text_width) {
  constexpr int64_t kE2b = 1536, kE4b = 2560;
  return text_width != kE2b && text_width != kE4b;
}

core::ValueId pixtral_rows(Builder& b, int64_t side) {
  const Hparams& h = b.hparams();
  core::ValueId x = b.patches(h.patch());
  const auto dim = static_cast<double>(h.head_dim());
  x = b.layers(x, {.norm = Norm::rms,
                   .activation = b.activation(),
                   .rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 1, 10000, std::pow(10000.0, -2 / dim)})});
  if (side > 1 && b.has("mm.input_norm.weight")) x = b.norm(x, "mm.input_norm", Norm::rms);
  x = b.merge(x, side);
  if (side > 1) x = b.linear(b.channels_first(x, "mm.order", side * side), "mm.patch_merger");
  return b.linear(b.gelu(b.linear(x, "mm.1"), "mm.gelu"), "mm.2");
}

Tile interpolated_tile(const media::Picture& picture, int64_t side) {
  if (picture.width == side && picture.height == side) return picture;
  Tile tile = media::Picture(side, side);
  tile.levels = media::interpolated(picture, side, side);
  return tile;
}

media::Picture clip_square(const Hparams& h, const media::Picture& picture) {
  return media::resize_padded(picture, h.image_size(), h.image_size(), media::Filter::bicubic, {122, 116, 104});
}

std::vector<Part> wrapped(std::string before, media::Picture tile, std::string behind) {
  std::vector<Part> parts;
  if (!before.empty()) parts.push_back({.text = std::move(before)});
  parts.push_back({.tile = std::move(tile)});
  if (!behind.empty()) parts.push_back({.text = std::move(behind)});
  return parts;
}

} // namespace ridge::models::vision
