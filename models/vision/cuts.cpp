#include "models/vision/cuts.h"

namespace ridge::models::vision {

media::Picture dynamic_tile(const media::Picture& picture, const DynamicCut& cut) {
  const int64_t square = cut.factor * cut.factor;
  const media::Size size =
      media::smart_size({picture.width, picture.height}, cut.factor, cut.least * square, cut.most * square);
  return cut.pads ? media::resize_padded(picture, size.width, size.height, cut.filter)
                  : media::resize(picture, size.width, size.height, cut.filter);
}

std::vector<Part> wrapped(std::string before, media::Picture tile, std::string behind) {
  std::vector<Part> parts;
  if (!before.empty()) parts.push_back({.text = std::move(before)});
  parts.push_back({.tile = std::move(tile)});
  if (!behind.empty()) parts.push_back({.text = std::move(behind)});
  return parts;
}

} // namespace ridge::models::vision
