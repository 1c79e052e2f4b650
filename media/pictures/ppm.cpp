// "P6", width, height, maximum as text, then pixels, one or two bytes per value.
#include "core/error.h"
#include "media/pictures/formats.h"

namespace ridge::media {
namespace {

class Header {
 public:
  explicit Header(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int64_t number() {
    for (; is_space(peek()) || peek() == '#'; ++at_)
      if (peek() == '#')
        while (peek() != '\n' && peek() >= 0) ++at_;
    if (!is_digit(peek())) core::throw_error("cannot be decoded: a number is missing in its header");
    int64_t value = 0;
    constexpr int64_t kMax = int64_t{1} << 40;
    for (; is_digit(peek()); ++at_) value = std::min(kMax, value * 10 + peek() - '0');
    return value;
  }
  // The data begins after one white space.
  std::span<const std::byte> rest() const { return bytes_.subspan(std::min(at_ + 1, bytes_.size())); }

 private:
  int peek() const { return at_ < bytes_.size() ? static_cast<int>(bytes_[at_]) : -1; }
  static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  static bool is_digit(int c) { return c >= '0' && c <= '9'; }

  std::span<const std::byte> bytes_;
  size_t at_ = 2;
};

} // namespace

DecodedPicture decode_ppm(std::span<const std::byte> bytes, const PictureLimits& limits) {
  Header header(bytes);
  const int64_t width = header.number(), height = header.number(), largest = header.number();
  check_size(width, height, limits);
  if (largest < 1 || largest > 65535)
    core::throw_error("cannot be decoded: its maximum value is {}, expected 1 to 65535", largest);
  const std::span<const std::byte> values = header.rest();
  const int64_t size = largest > 255 ? 2 : 1;
  Picture picture(width, height);
  if (std::ssize(values) / size < std::ssize(picture.rgb))
    core::throw_error("cannot be decoded: the file is truncated");
  for (int64_t i = 0; i < std::ssize(picture.rgb); ++i) {
    int64_t value = static_cast<int64_t>(values[i * size]);
    if (size == 2) value = value * 256 + static_cast<int64_t>(values[i * size + 1]);
    picture.rgb[i] = static_cast<uint8_t>((std::min(value, largest) * 255 + largest / 2) / largest);
  }
  return {std::move(picture)};
}

} // namespace ridge::media
