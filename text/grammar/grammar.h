// GBNF grammars as pushdown automata over bytes, one nondeterministic automaton per rule. Bytes allow tokens to end
// inside characters; only recursion needs the stack.
//
// Notation: rules `name ::= …`, |, ( ), "…", [a-z] [^"\\], any character `.`, * + ? {m} {m,} {m,n}, #, tokens <[42]>
// <think> and negation !. `root` is the start. Escapes are code points: \n \r \t \" \\ \[ \] \- \xHH \uHHHH \UHHHHHHHH.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct CodePointRange {
  uint32_t first, last;
  auto operator<=>(const CodePointRange&) const = default;
};

class Grammar {
 public:
  static constexpr size_t kMaxStates = 1'000'000;
  static constexpr size_t kMaxClassNodes = 65'000;
  static constexpr int kMaxNesting = 200;
  static constexpr size_t kMaxTextBytes = 16'000'000;

  // Throws Error with line and column: syntax, undefined, duplicate or left-recursive rules, no root, limits.
  static Grammar parse(std::string_view gbnf);

  enum class Kind : uint8_t {
    accept,
    byte,       // reads the byte `value`
    char_class, // reads a code point from class node `value`
    split,      // continues at `next` and `value`
    call,       // reads the rule at state `value`, then continues at `next`
    token,      // reads tokens[value]
  };
  struct State {
    Kind kind;
    uint32_t value;
    uint32_t next;
  };
  static constexpr uint32_t kAccept = 0;

  // class_nodes[node][byte]: next node, kNoMatch or kMatched.
  static constexpr uint16_t kNoMatch = 0, kMatched = 1;

  struct TokenReference {
    int32_t id; // -1: find it by `text`
    std::string text;
    bool negated;
    auto operator<=>(const TokenReference&) const = default;
  };

  std::vector<State> states;
  std::vector<std::array<uint16_t, 256>> class_nodes;
  std::map<uint32_t, std::vector<CodePointRange>> classes; // code points by first node
  std::vector<TokenReference> tokens;
  uint32_t start = 0;
};

} // namespace ridge::text
