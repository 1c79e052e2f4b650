// Schema patterns, matched by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ridge::text {

class EcmaPattern {
 public:
  explicit EcmaPattern(const std::string& pattern);

  // Valid UTF-8 only. Also true if the pattern is invalid or limits are exceeded.
  bool matches(std::string_view text) const;

 private:
  std::shared_ptr<void> code_; // nullptr: invalid
};

} // namespace ridge::text
