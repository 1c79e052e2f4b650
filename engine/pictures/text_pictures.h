// A text with pictures: where they are in it, and what an executor needs to evaluate a part of it.
//
// A picture's tokens have no ids of a vocabulary. Numbers below 0 stand for them that follow from the picture, so that
// two texts with the same tokens are the same text with the same pictures.
#pragma once

#include "core/executor.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ridge::engine {

// A tile of a picture, as a language model reads it.
struct EncodedTile {
  std::shared_ptr<const float> rows; // [tokens][width]
  int64_t tokens = 0, width = 0;
  int64_t columns = 0, lines = 0; // of tokens, where they make a grid
  bool framed = false;            // a token stands before that grid and one behind it
  bool sees_ahead = false;        // they see one another in the language model
  uint64_t hash = 0;              // of its pixels

  std::span<const float> all_rows() const { return {rows.get(), static_cast<size_t>(tokens * width)}; }

  int32_t id(int64_t token) const; // below 0
};

class TextPictures {
 public:
  struct Place {
    int64_t first; // token of the text
    std::shared_ptr<const EncodedTile> tile;
    int64_t end() const { return first + tile->tokens; }
  };

  bool empty() const { return places_.empty(); }
  std::span<const Place> places() const { return places_; }
  // Appends the tile's tokens to the text; tiles come in order.
  void append(std::vector<int32_t>& text, std::shared_ptr<const EncodedTile> tile);

  // The picture that the token is of; null: of none.
  const Place* at(int64_t token) const;
  // Where a token is for rope in models that tell rows from columns: core::Batch::axes. A picture is as long as its
  // longer side there. A framed one is as long as it has tokens; what stands in the frame has its column, its line,
  // both from 0, and the number of the picture.
  std::array<int32_t, core::kPlaceAxes> axes(int64_t token) const;
  // As many of the first `count` tokens as can be kept without those behind them: not a part of a picture whose tokens
  // see one another.
  int64_t whole(int64_t count) const;
  // Where a part that begins at `first` ends, at most at `end`, so that it has such pictures as a whole; at least the
  // first picture's end, where `first` is one's beginning.
  int64_t end_of_part(int64_t first, int64_t end) const;

 private:
  std::vector<Place> places_;
};

// A batch that is put together from parts of texts.
struct PlacedBatch {
  std::vector<int32_t> tokens, positions, streams, outputs;

  // Tokens of a text from its token `first` on, which may have pictures; null: it has none. Positions are those of the
  // text.
  void append(std::span<const int32_t> part, int64_t first, int32_t stream, const TextPictures* pictures);
  // What is put together, valid until the next append(). With places, as the Program has them.
  core::Batch batch(const core::Program& program);

 private:
  struct Part {
    size_t begin, count;
    int64_t first;
    const TextPictures* pictures;
  };
  std::vector<Part> parts_; // with pictures
  std::vector<float> rows_;
  std::vector<int32_t> axes_, block_ends_;
};

} // namespace ridge::engine
