// How pictures are cut for encoders: what several families share.
#pragma once

#include "media/resize.h"
#include "models/vision/projector.h"

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

// A tile, and what stands around it.
std::vector<Part> wrapped(std::string before, media::Picture tile, std::string behind);

} // namespace ridge::models::vision
