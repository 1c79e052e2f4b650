// Regular expressions of JSON schema, read into a tree.
#pragma once

#include "text/grammar/grammar.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace ridge::text {

using CodePoints = std::vector<CodePointRange>; // sorted, disjoint
inline constexpr CodePointRange kAllCodePoints = {0, 0x10ffff};

struct PatternNode {
  enum class Kind { one_of, sequence, alternatives, repeat };
  static constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

  Kind kind = Kind::sequence;
  CodePoints characters = {}; // one_of: a character of these
  uint32_t min = 0, max = 0;  // repeat
  std::vector<PatternNode> children = {};
};

struct StringPattern {
  PatternNode whole; // of whole strings: where the expression has no ^ or $, any text is added
  struct Ahead {
    PatternNode whole;
    bool negative;
  };
  std::vector<Ahead> aheads; // look-ahead behind ^: it holds for whole strings, too
};

// Reads an ECMAScript regular expression. As in JSON schema, it is unanchored unless it has ^ and $. Throws an Error
// for malformed expressions and for those that are not regular or not understood: look-around elsewhere than behind ^,
// back-references, \b, \p, ^ and $ within.
StringPattern parse_string_pattern(std::string_view pattern);

} // namespace ridge::text
