// The window's saved state: NAME=VALUE lines.
#pragma once

#include <string>

namespace ridge::ui {

inline constexpr int kMinZoom = 60, kMaxZoom = 200; // percent

struct Layout {
  int width = 1280, height = 800;
  std::string panel = "chat";
  bool light = false;
  int zoom = 100; // percent
  bool conversations = true, settings = true;
  bool operator==(const Layout&) const = default;
};

// Missing and invalid values keep their defaults.
Layout load_layout(const std::string& path);
// Creates the folder. Throws Error.
void save_layout(const std::string& path, const Layout& layout);

} // namespace ridge::ui
