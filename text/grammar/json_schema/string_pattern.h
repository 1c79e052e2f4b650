// JSON schema's regular expressions.
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
  CodePoints characters = {};
  uint32_t min = 0, max = 0;
  std::vector<PatternNode> children = {};
};

struct StringPattern {
  PatternNode whole; // anchored: any text is added where ^ or $ is missing
  struct Ahead {
    PatternNode whole;
    bool negative;
  };
  std::vector<Ahead> aheads; // look-ahead after ^, anchored
};

// ECMAScript syntax. Throws Error if invalid or unsupported: other look-around, back-references, \b, \p, inner ^ and $.
StringPattern parse_string_pattern(std::string_view pattern);

} // namespace ridge::text
