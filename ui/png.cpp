#include "ui/png.h"

#include "core/error.h"

#include <png.h>

namespace ridge::ui {

void write_png(const std::string& path, int width, int height, const std::vector<uint8_t>& rgb) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  // A negative stride means bottom row first.
  if (!png_image_write_to_file(&image, path.c_str(), 0, rgb.data(), -3 * width, nullptr))
    throw_error("{}: cannot write the screenshot: {}", path, image.message);
}

} // namespace ridge::ui
