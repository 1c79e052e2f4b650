#include "ui/panels/layout.h"

#include "core/files/atomic_file.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <span>

namespace ridge::ui {
namespace {

constexpr int kSmallest = 320, kLargest = 16384;

void set_number(int& size, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && value >= least && value <= most) size = value;
}

void set_flag(bool& flag, const std::string& text) {
  if (text == "yes" || text == "no") flag = text == "yes";
}

} // namespace

Layout load_layout(const std::string& path) {
  Layout layout;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "width") set_number(layout.width, value, kSmallest, kLargest);
    if (name == "height") set_number(layout.height, value, kSmallest, kLargest);
    if (name == "panel") layout.panel = value;
    if (name == "zoom") set_number(layout.zoom, value, kMinZoom, kMaxZoom);
    if (name == "light") set_flag(layout.light, value);
    if (name == "conversations") set_flag(layout.conversations, value);
    if (name == "settings") set_flag(layout.settings, value);
  }
  return layout;
}

void save_layout(const std::string& path, const Layout& layout) {
  const auto word = [](bool flag) { return flag ? "yes" : "no"; };
  const std::string text = fmt::format(
      "width={}\nheight={}\npanel={}\nlight={}\nzoom={}\nconversations={}\nsettings={}\n", layout.width, layout.height,
      layout.panel, word(layout.light), layout.zoom, word(layout.conversations), word(layout.settings));
  std::error_code ignored; // AtomicFile reports a missing folder
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  core::AtomicFile file(path, text.size());
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

} // namespace ridge::ui
