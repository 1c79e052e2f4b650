#include "ui/widgets/picture_paths.h"

#include "core/strings/lower.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace ridge::ui {
namespace {

// Formats that cannot be read are here, too: dropping such a file then gives an error that says so.
constexpr std::array kEndings = {".jpg", ".jpeg", ".jpe", ".jfif", ".png",  ".webp", ".ppm",  ".pnm",
                                 ".gif", ".bmp",  ".tif", ".tiff", ".avif", ".heic", ".heif", ".svg"};

constexpr size_t kLongestText = 1 << 16; // no longer one is a list of files

std::string without_escapes(std::string_view url) {
  std::string text;
  for (size_t i = 0; i < url.size(); ++i) {
    int byte = 0;
    const char* const digits = url.data() + i + 1;
    if (url[i] == '%' && i + 2 < url.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += url[i];
    }
  }
  return text;
}

std::string path_of(std::string_view line) {
  constexpr std::string_view kScheme = "file://";
  if (!line.starts_with(kScheme)) return std::string(line);
  line.remove_prefix(kScheme.size());
  const size_t path = line.find('/'); // behind the host's name, which is this one's
  return path == line.npos ? "" : without_escapes(line.substr(path));
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
