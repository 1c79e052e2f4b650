// Resizing compared with values calculated by hand.
#include "media/pictures/resize.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using media::Filter;
using media::Picture;

namespace {

Picture row(const std::vector<int>& grey) {
  Picture picture(static_cast<int64_t>(grey.size()), 1);
  for (size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = static_cast<uint8_t>(grey[i / 3]);
  return picture;
}

std::vector<int> greys(const Picture& picture) {
  std::vector<int> values;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) values.push_back(picture.rgb[i]);
  return values;
}

Picture transposed(const Picture& from) {
  Picture to(from.height, from.width);
  for (int64_t y = 0; y < from.height; ++y)
    for (int64_t x = 0; x < from.width; ++x) std::copy_n(from.row(y) + 3 * x, 3, to.row(x) + 3 * y);
  return to;
}

} // namespace

TEST_CASE("a filter is as much wider as a picture gets smaller") {
  // Triangle weights 1/4, 3/4, 3/4, 1/4, normalized at edges.
  CHECK(greys(media::resize(row({0, 100, 200, 50}), 2, 1, Filter::bilinear)) == std::vector<int>{71, 121});
  // Weights 1/4 and 3/4.
  CHECK(greys(media::resize(row({0, 100}), 4, 1, Filter::bilinear)) == std::vector<int>{0, 25, 75, 100});
  // Overshoots: 0.8672, 0.2266, -0.0234, -0.0703 at 1/4 and 3/4 of a pixel.
  CHECK(greys(media::resize(row({100, 100, 200, 200}), 8, 1, Filter::bicubic)) ==
        std::vector<int>{100, 98, 93, 120, 180, 207, 202, 200});
  CHECK(greys(media::resize(row({0, 0, 255, 255}), 8, 1, Filter::bicubic)) ==
        std::vector<int>{0, 0, 0, 52, 203, 255, 255, 255});
}

TEST_CASE("rows are resized as columns, and one colour stays what it is") {
  Picture picture = row({3, 250, 9, 77, 130, 4, 200});
  for (const Filter filter : {Filter::bilinear, Filter::bicubic, Filter::lanczos})
    for (const int64_t side : {1, 2, 5, 7, 19}) {
      CHECK(transposed(media::resize(picture, side, 1, filter)) == media::resize(transposed(picture), 1, side, filter));
      CHECK(greys(media::resize(row({77, 77, 77}), side, 2, filter)) == std::vector<int>(2 * side, 77));
    }
  CHECK(media::resize(picture, 7, 1, Filter::lanczos) == picture);
}

TEST_CASE("a picture that keeps its shape lies in the middle") {
  const Picture padded = media::resize_padded(row({9, 9, 9, 9}), 4, 4, Filter::bilinear, {1, 2, 3});
  CHECK(padded.height == 4);
  CHECK(greys(padded) == std::vector<int>{1, 1, 1, 1, 9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(padded.rgb[2] == 3);
}

TEST_CASE("smart sizes are multiples with about the picture's shape") {
  CHECK(media::smart_size({137, 71}, 16, 0, 1 << 20) == media::Size{144, 64});
  CHECK(media::smart_size({3, 500}, 28, 0, 1 << 20) == media::Size{28, 504});
  CHECK(media::smart_size({1000, 1000}, 28, 0, 28 * 28 * 4) == media::Size{56, 56});
  CHECK(media::smart_size({10, 10}, 28, 28 * 28 * 4, 1 << 20) == media::Size{56, 56});
}
