// Ways to cut images that encoders share.
#pragma once

#include "core/error.h"
#include "media/pictures/resize.h"
#include "models/vision/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ridge::models::vision {

// About the image's shape: sides are multiples of `factor`, the area is `least` to `most` such squares.
struct DynamicCut {
  int64_t factor, least, most;
  media::Filter filter = media::Filter::bicubic;
  bool pads = true; // else distorts slightly
};
media::Picture dynamic_tile(const media::Picture& picture, const DynamicCut& cut);

// From image_min_pixels and image_max_pixels; without `otherwise` they are required.
struct PixelBounds {
  int64_t least, most;
};
media::Picture pixel_bound_tile(const Hparams& h, const media::Picture& picture, int64_t factor,
                                std::optional<PixelBounds> otherwise = {});

// The size that keeps the most pixels when the image is scaled to fit; ties: least padding, then first.
media::Size best_size(const media::Picture& picture, std::span<const media::Size> sizes);
// The grid of `least` to `most` tiles with the closest aspect ratio.
media::Size nearest_grid(const media::Picture& picture, int64_t least, int64_t most, int64_t side);
void append_tiles(std::vector<Part>& parts, const media::Picture& picture, int64_t side);

// MiniCPM's sizes: multiples of `factor` with the area of a square of `side`, or smaller if `grows` is false.
struct Slices {
  int64_t side, factor;
  bool pads = true;
  bool to_even = false;
};
media::Size area_size(media::Size picture, const Slices& slices, bool grows);
void append_slices(std::vector<Part>& parts, const media::Picture& picture, const Slices& slices,
                   const std::string& before, const std::string& behind);

// A square, resized without rounding.
Tile interpolated_tile(const media::Picture& picture, int64_t side);

// CLIP's square, padded by its mean color.
media::Picture clip_square(const Hparams& h, const media::Picture& picture);

std::vector<Part> wrapped(std::string before, media::Picture tile, std::string behind);

// Qwen's encoders: patches per side of a token, and the cut.
int64_t qwen_side(const Hparams& h);
std::vector<Part> qwen_cut(const Hparams& h, const media::Picture& picture);
// Whether image tokens attend to later ones: not in the two smallest Gemma 4.
bool gemma4_sees_ahead(int64_t text_width);
core::ValueId pixtral_rows(Builder& b, int64_t side);

} // namespace ridge::models::vision
