// Ends a text before its first line that is indented less than wanted, for editors that fill in a block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::server {

class LineGuard {
 public:
  explicit LineGuard(int64_t least) : least_(least) {} // of spaces and tabs before a line; 0: any line may come

  // The text that is sure to stay. A line's end waits for what the next line begins with.
  std::string push(std::string_view text) {
    if (least_ == 0) return std::string(text);
    std::string sure;
    for (const char c : text) {
      if (ended_) break;
      if (c == '\n') {
        if (!held_.empty()) sure += held_; // a line without text
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
  std::string finish() { return ended_ ? std::string() : held_; } // what is still held, once
  bool ended() const { return ended_; }

 private:
  const int64_t least_;
  std::string held_; // a line's end and the white space behind it
  bool ended_ = false;
};

} // namespace ridge::server
