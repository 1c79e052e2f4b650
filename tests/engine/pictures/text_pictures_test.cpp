// 2-D token positions.
#include "engine/pictures/text_pictures.h"

#include <doctest/doctest.h>

using namespace ridge;

namespace {

using Axes = std::array<int32_t, core::kPlaceAxes>;

std::shared_ptr<const engine::EncodedTile> tile(int64_t columns, int64_t lines, bool framed) {
  engine::EncodedTile made;
  made.columns = columns;
  made.lines = lines;
  made.framed = framed;
  made.tokens = columns * lines + (framed ? 2 : 0);
  made.hash = 7;
  return std::make_shared<const engine::EncodedTile>(std::move(made));
}

} // namespace

TEST_CASE("a picture is as long as its longer side") {
  std::vector<int32_t> text = {5, 6};
  engine::TextPictures pictures;
  pictures.append(text, tile(3, 2, false));
  text.push_back(7);
  CHECK(pictures.axes(1) == Axes{1, 1, 1, 0});
  CHECK(pictures.axes(2) == Axes{2, 2, 2, 0});
  CHECK(pictures.axes(4) == Axes{2, 2, 4, 0});
  CHECK(pictures.axes(7) == Axes{2, 3, 4, 0});
  CHECK(pictures.axes(8) == Axes{5, 5, 5, 0});
}

TEST_CASE("a framed picture has its number, columns and lines from 0, and as many places as tokens") {
  std::vector<int32_t> text = {5};
  engine::TextPictures pictures;
  pictures.append(text, tile(2, 2, true));
  text.push_back(7);
  pictures.append(text, tile(3, 1, true));
  text.push_back(8);
  CHECK(text.size() == 14);
  CHECK(pictures.axes(0) == Axes{0, 0, 0, 0});
  CHECK(pictures.axes(1) == Axes{1, 1, 1, 1});
  CHECK(pictures.axes(2) == Axes{2, 0, 0, 0});
  CHECK(pictures.axes(3) == Axes{3, 1, 0, 0});
  CHECK(pictures.axes(4) == Axes{4, 0, 1, 0});
  CHECK(pictures.axes(6) == Axes{6, 6, 6, 6});
  CHECK(pictures.axes(7) == Axes{7, 7, 7, 0});
  CHECK(pictures.axes(10) == Axes{10, 1, 0, 1});
  CHECK(pictures.axes(12) == Axes{12, 12, 12, 12});
}

TEST_CASE("text has the place 0 of pictures' numbers where rope turns by them, also without a picture") {
  core::Program program;
  program.has_token_coordinates = true;
  program.rope_tables.push_back({{1, 0.5f}, 1, core::RopeStyle::split});
  engine::PlacedBatch placed;
  placed.append(std::vector<int32_t>{1, 2}, 3, 0, nullptr);
  program.rope_tables[0].axes = {0, 1};
  CHECK(placed.batch(program).axes.empty());
  program.rope_tables[0].axes = {0, 3};
  const core::Batch batch = placed.batch(program);
  CHECK(std::vector(batch.axes.begin(), batch.axes.end()) == std::vector<int32_t>{3, 3, 3, 0, 4, 4, 4, 0});
}
