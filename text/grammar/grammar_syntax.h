// The syntax tree between GBNF text and automaton; private to the grammar files.
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
  std::string bytes;                  // literal: UTF-8
  std::vector<CodePointRange> ranges; // char_class: sorted, disjoint
  uint32_t index = 0;                 // rule, token: which
  uint32_t min = 0, max = 0;          // repeat
  std::vector<GrammarNode> children;
};

struct GrammarSyntax {
  struct Rule {
    std::string name;
    GrammarNode body;
  };
  std::vector<Rule> rules; // all defined
  std::vector<Grammar::TokenReference> tokens;
  uint32_t root = 0;
};

GrammarSyntax parse_grammar_syntax(std::string_view gbnf);

// Sorts and merges; with `negated`, gives all other code points up to U+10FFFF.
std::vector<CodePointRange> normalize_ranges(std::vector<CodePointRange> ranges, bool negated);

} // namespace ridge::text
