// A grammar in GBNF, the field's grammar notation, compiled to a pushdown automaton over bytes.
//
// Each rule becomes a nondeterministic automaton whose edges read a byte, read one code point of a character class, or
// call another rule. Working on bytes rather than code points means that a token holding half a character needs no
// special care: it stops in the middle of a class. Repetitions are loops or copies, so only real recursion uses the
// stack.
//
// Notation: rules `name ::= …`, alternatives |, groups ( ), literals "…", classes [a-z] [^"\\], any character `.`,
// repetition * + ? {m} {m,} {m,n}, comments #, tokens <[42]> <think> and their negation with !. `root` is the start.
// Escapes: \n \r \t \" \\ \[ \] \- \xHH \uHHHH \UHHHHHHHH; all of them denote code points.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct CodePointRange {
  uint32_t first, last; // both included
  auto operator<=>(const CodePointRange&) const = default;
};

class Grammar {
 public:
  static constexpr size_t kMaxStates = 1'000'000;     // what all rules together may compile to
  static constexpr size_t kMaxClassNodes = 65'000;    // of all character classes together
  static constexpr int kMaxNesting = 200;             // parentheses within parentheses
  static constexpr size_t kMaxTextBytes = 16'000'000; // of the grammar's text

  // Throws an Error with line and column for wrong notation, undefined, repeated or left-recursive rules, a missing
  // root, and for grammars beyond the limits above.
  static Grammar parse(std::string_view gbnf);

  enum class Kind : uint8_t {
    accept,     // the rule is complete
    byte,       // reads the byte `value`
    char_class, // reads a code point, starting at class node `value`
    split,      // goes on at `next` and at `value`
    call,       // reads the rule that starts at state `value`, then goes on at `next`
    token,      // reads one whole token, tokens[value]
  };
  struct State {
    Kind kind;
    uint32_t value;
    uint32_t next;
  };
  static constexpr uint32_t kAccept = 0; // the one accepting state, shared by all rules

  // Character classes as byte automata: class_nodes[node][byte] is the next node, kNoMatch or kMatched.
  static constexpr uint16_t kNoMatch = 0, kMatched = 1;

  struct TokenReference {
    int32_t id;       // or -1: the token of this text
    std::string text; // "<think>"
    bool negated;
    auto operator<=>(const TokenReference&) const = default;
  };

  std::vector<State> states;
  std::vector<std::array<uint16_t, 256>> class_nodes;
  std::vector<TokenReference> tokens;
  uint32_t start = 0; // the first state of root
};

} // namespace ridge::text
