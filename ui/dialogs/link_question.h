// What is asked before an address that a model wrote is opened.
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

// http, https and mailto: what a browser takes. Others could name programs or files of this machine.
bool may_be_opened(const std::string& address);

} // namespace ridge::ui
