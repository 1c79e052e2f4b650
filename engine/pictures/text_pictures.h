// Pictures in texts, and batches with them. Their tokens are numbers below 0 derived from the contents, so equal tokens
// mean equal pictures.
#pragma once

#include "core/executor.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ridge::engine {

struct EncodedTile {
  std::shared_ptr<const float> rows; // [tokens][width]
  int64_t tokens = 0, width = 0;
  int64_t columns = 0, lines = 0; // of the token grid; 0: none
  bool framed = false;            // one token precedes the grid and one follows it
  bool sees_ahead = false;        // bidirectional attention
  uint64_t hash = 0;
  std::function<void()> arrive = {}; // waits until the host may read the rows

  void wait_for_rows() const {
    if (arrive) arrive();
  }
  std::span<const float> all_rows() const {
    wait_for_rows();
    return {rows.get(), static_cast<size_t>(tokens * width)};
  }

  int32_t id(int64_t token) const;
};

class TextPictures {
 public:
  struct Place {
    int64_t first;
    std::shared_ptr<const EncodedTile> tile;
    int64_t end() const { return first + tile->tokens; }
  };

  bool empty() const { return places_.empty(); }
  std::span<const Place> places() const { return places_; }
  void append(std::vector<int32_t>& text, std::shared_ptr<const EncodedTile> tile);

  // Null if the token is not a picture's.
  const Place* at(int64_t token) const;
  // Rope coordinates (core::Batch::axes). A picture advances positions by its longer side, a framed one by its token
  // count; tokens in the frame have a column, a line and the picture's number.
  std::array<int32_t, core::kPlaceAxes> axes(int64_t token) const;
  // The longest prefix of `count` tokens that cuts no picture with bidirectional tokens.
  int64_t whole(int64_t count) const;
  // Limits a part to `end` without cutting such a picture. One at `first` stays whole even beyond `end`.
  int64_t end_of_part(int64_t first, int64_t end) const;

 private:
  std::vector<Place> places_;
};

struct PlacedBatch {
  std::vector<int32_t> tokens, positions, streams, outputs;

  // `first` is the part's index in its text, and its first position. `pictures` may be null.
  void append(std::span<const int32_t> part, int64_t first, int32_t stream, const TextPictures* pictures);
  // Valid until the next append(). A program whose rows are shorter than the pictures' takes their beginnings. Without
  // a `reader` the host can read the rows.
  core::Batch batch(const core::Program& program, const core::Executor* reader = nullptr);

 private:
  struct Part {
    size_t begin, count;
    int64_t first;
    const TextPictures* pictures;
  };
  std::vector<Part> parts_;
  std::vector<float> rows_;
  std::vector<int32_t> axes_, block_ends_;
};

} // namespace ridge::engine
