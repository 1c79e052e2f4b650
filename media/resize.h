// Other sizes of pictures, bit for bit as the programs make them that models were trained with.
#pragma once

#include "media/picture.h"

#include <array>

namespace ridge::media {

struct Size {
  int64_t width, height;
  bool operator==(const Size&) const = default;
};

enum class Filter : uint8_t { bilinear, bicubic, lanczos };

// In two passes, columns first, with 8 bits between them and weights of 22 bits, as the Python library Pillow does. A
// filter that makes a picture smaller is as much wider. Sides are at least 1.
Picture resize(const Picture& picture, int64_t width, int64_t height, Filter filter);

using Color = std::array<uint8_t, 3>;
inline constexpr Color kBlack = {0, 0, 0};

// How the sides of a picture that keeps its shape become whole numbers.
enum class Rounding : uint8_t { up, nearest };

// As large as fits into these sides without another shape, in the middle, the rest of one colour.
Picture resize_padded(const Picture& picture, int64_t width, int64_t height, Filter filter, Color color = kBlack,
                      Rounding rounding = Rounding::up);

inline Picture resize_padded(const Picture& picture, Size size, Filter filter) {
  return resize_padded(picture, size.width, size.height, filter);
}

// A part of it, which lies inside.
Picture crop(const Picture& picture, int64_t x, int64_t y, int64_t width, int64_t height);

// Sides that are multiples of `factor`, nearly of the picture's shape, of as many pixels as it has, but `least` at
// least and `most` at most, where one multiple of each side is not more.
Size smart_size(Size picture, int64_t factor, int64_t least, int64_t most);

} // namespace ridge::media
