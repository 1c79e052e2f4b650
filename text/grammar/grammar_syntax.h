// The syntax tree of GBNF; private to the grammar files.
#pragma once

#include "text/grammar/grammar.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct GrammarNode {
  enum class Kind { literal, char_class, rule, token, sequence, alternatives, repeat };
  static constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

  Kind kind;
  std::string bytes;
  std::vector<CodePointRange> ranges; // sorted, disjoint
  uint32_t index = 0;
  uint32_t min = 0, max = 0;
  std::vector<GrammarNode> children;
};

struct GrammarSyntax {
  struct Rule {
    std::string name;
    GrammarNode body;
  };
  std::vector<Rule> rules;
  std::vector<Grammar::TokenReference> tokens;
  uint32_t root = 0;
};

GrammarSyntax parse_grammar_syntax(std::string_view gbnf);

// Sorts, merges; `negated`: the complement up to U+10FFFF.
std::vector<CodePointRange> normalize_ranges(std::vector<CodePointRange> ranges, bool negated);

} // namespace ridge::text
