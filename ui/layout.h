// What the window remembers from one day to the next: size, panel, colours, which side cards are open. A file of
// NAME=VALUE lines that a person can read and delete.
#pragma once

#include <string>

namespace ridge::ui {

inline constexpr int kLeastZoom = 60, kMostZoom = 200; // percent

struct Layout {
  int width = 1280, height = 800; // units of the screen
  std::string panel = "chat";
  bool light = false;
  int zoom = 100;                             // percent
  bool conversations = true, settings = true; // the cards beside the chat
  bool operator==(const Layout&) const = default;
};

// Lines that are not understood, or out of range, leave what is there by default; so does a file that is not there.
Layout load_layout(const std::string& path);
// Creates the folder. Throws Error where the file cannot be written.
void save_layout(const std::string& path, const Layout& layout);

} // namespace ridge::ui
