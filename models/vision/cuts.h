// How pictures are cut for encoders: what several families share.
#pragma once

#include "core/error.h"
#include "media/resize.h"
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

// One tile of nearly the picture's shape, sides multiples of `factor`, of `least` to `most` squares of that side.
struct DynamicCut {
  int64_t factor, least, most;
  media::Filter filter = media::Filter::bicubic;
  bool pads = true; // else the picture's shape changes a little
};
media::Picture dynamic_tile(const media::Picture& picture, const DynamicCut& cut);

// The same between so many pixels: image_min_pixels and image_max_pixels of the file. `otherwise`: where it has not
// both, else they are required.
struct PixelBounds {
  int64_t least, most;
};
media::Picture pixel_bound_tile(const Hparams& h, const media::Picture& picture, int64_t factor,
                                std::optional<PixelBounds> otherwise = {});

// Chooses the size that holds the most pixels of the picture when it is scaled to fit. Among equals, the size with the
// least padding wins, then the first one.
media::Size best_size(const media::Picture& picture, std::span<const media::Size> sizes);
// Chooses the grid of `least` to `most` tiles of `side` pixels whose aspect ratio is nearest to the picture's.
media::Size nearest_grid(const media::Picture& picture, int64_t least, int64_t most, int64_t side);
// Tiles of `side` pixels, line by line.
void append_tiles(std::vector<Part>& parts, const media::Picture& picture, int64_t side);

// MiniCPM's sizes, multiples of `factor`: of a picture's shape and as many pixels as a square of `side`; of fewer only
// where it does not grow.
struct Slices {
  int64_t side, factor;
  bool pads = true;     // else the picture's shape changes a little
  bool to_even = false; // half a multiple becomes an even one
};
media::Size area_size(media::Size picture, const Slices& slices, bool grows);
// The picture in up to nine slices of such a size, line by line, with text around each.
void append_slices(std::vector<Part>& parts, const media::Picture& picture, const Slices& slices,
                   const std::string& before, const std::string& behind);

// A tile, and what stands around it.
std::vector<Part> wrapped(std::string before, media::Picture tile, std::string behind);

// Qwen's encoders and similar ones: how many patches a side of a token's square has, and how a picture is cut.
int64_t qwen_side(const Hparams& h);
std::vector<Part> qwen_cut(const Hparams& h, const media::Picture& picture);
// Whether tokens of a picture attend to later ones in a Gemma 4 of this width: not in its two smallest models.
bool gemma4_sees_ahead(int64_t text_width);
// Pixtral's encoder and merger.
core::ValueId pixtral_rows(Builder& b, int64_t side);

} // namespace ridge::models::vision
