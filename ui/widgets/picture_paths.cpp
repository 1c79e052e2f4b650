#include "ui/widgets/picture_paths.h"

#include "core/strings/file_url.h"
#include "core/strings/lower.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace ridge::ui {
namespace {

// Unsupported formats are included: dropping one then gives a clear error.
constexpr std::array kEndings = {".jpg", ".jpeg", ".jpe", ".jfif", ".png",  ".webp", ".ppm",  ".pnm",
                                 ".gif", ".bmp",  ".tif", ".tiff", ".avif", ".heic", ".heif", ".svg",
                                 ".wav", ".flac", ".mp3", ".ogg",  ".oga",  ".opus", ".aiff", ".m4a"};

constexpr size_t kLongestText = 1 << 16; // longer texts are no lists

std::string path_of(std::string_view line) {
  return line.starts_with(core::kFileUrl) ? core::path_of_file_url(line) : std::string(line);
}

} // namespace

bool is_picture_name(std::string_view path) {
  const std::string name = core::lower(path);
  return std::ranges::any_of(kEndings, [&](const char* ending) { return name.ends_with(ending); });
}

std::vector<std::string> picture_paths(std::string_view text) {
  std::vector<std::string> paths;
  if (text.size() > kLongestText) return {};
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string path = path_of(line);
    std::error_code ignored;
    if (!path.starts_with('/') || !is_picture_name(path) || !std::filesystem::is_regular_file(path, ignored)) return {};
    paths.push_back(path);
  }
  return paths;
}

} // namespace ridge::ui
