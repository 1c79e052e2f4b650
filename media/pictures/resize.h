// Resizes pictures, bit-identical to the preprocessing that models were trained with.
#pragma once

#include "media/pictures/picture.h"

#include <array>

namespace ridge::media {

struct Size {
  int64_t width, height;
  bool operator==(const Size&) const = default;
};

enum class Filter : uint8_t { bilinear, bicubic, lanczos };

// Like Pillow: columns first, 8 bits between passes, 22-bit weights; filters widen when shrinking. Sides >= 1.
Picture resize(const Picture& picture, int64_t width, int64_t height, Filter filter);

using Color = std::array<uint8_t, 3>;
inline constexpr Color kBlack = {0, 0, 0};

// Rounding of sides at a fixed aspect ratio.
enum class Rounding : uint8_t { up, nearest };

// Largest size with the same aspect ratio, centered.
Picture resize_padded(const Picture& picture, int64_t width, int64_t height, Filter filter, Color color = kBlack,
                      Rounding rounding = Rounding::up);

inline Picture resize_padded(const Picture& picture, Size size, Filter filter) {
  return resize_padded(picture, size.width, size.height, filter);
}

// The part must lie inside.
Picture crop(const Picture& picture, int64_t x, int64_t y, int64_t width, int64_t height);

// At the top left of a black picture, which is at least as large.
Picture placed(const Picture& picture, int64_t width, int64_t height);

// Bilinear between the four nearest pixels, without rounding: [height][width][3], 0 to 255.
std::vector<float> interpolated(const Picture& picture, int64_t width, int64_t height);

// Sides are multiples of `factor` at about the same aspect ratio, with `least` to `most` pixels, but at least one
// multiple.
Size smart_size(Size picture, int64_t factor, int64_t least, int64_t most);

} // namespace ridge::media
