// Asks before opening a link.
#pragma once

#include <string>

namespace ridge::ui {

class LinkQuestion {
 public:
  void ask(std::string address) {
    address_ = std::move(address);
    opening_ = true;
  }
  void draw(); // once a frame, outside other windows
  bool is_open() const { return !address_.empty(); }

 private:
  std::string address_, problem_;
  bool opening_ = false;
};

// Allows http, https and mailto. Other schemes could start programs or open local files.
bool may_be_opened(const std::string& address);

} // namespace ridge::ui
