// A regular expression of a JSON schema, matched by PCRE2 within limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ridge::text {

class EcmaPattern {
 public:
  explicit EcmaPattern(const std::string& pattern);

  // Whether the text, valid UTF-8, has a match anywhere. True as well where the pattern is no regular expression, and
  // where looking for a match takes too long.
  bool matches(std::string_view text) const;

 private:
  std::shared_ptr<void> code_; // null: none
};

} // namespace ridge::text
