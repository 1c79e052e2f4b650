// Ends a text before the first line with too little indentation, for editors that fill in a block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::server {

class LineGuard {
 public:
  explicit LineGuard(int64_t least) : least_(least) {} // spaces and tabs; 0: no check

  // Holds a line end until text of the next line comes.
  std::string push(std::string_view text) {
    if (least_ == 0) return std::string(text);
    std::string sure;
    for (const char c : text) {
      if (ended_) break;
      if (c == '\n') {
        if (!held_.empty()) sure += held_;
        held_ = c;
      } else if (held_.empty()) {
        sure += c;
      } else if (c == ' ' || c == '\t') {
        held_ += c;
      } else if (static_cast<int64_t>(held_.size()) - 1 < least_) {
        ended_ = true;
      } else {
        sure += held_ + c;
        held_.clear();
      }
    }
    return sure;
  }
  std::string finish() { return ended_ ? std::string() : held_; }
  bool ended() const { return ended_; }

 private:
  const int64_t least_;
  std::string held_;
  bool ended_ = false;
};

} // namespace ridge::server
