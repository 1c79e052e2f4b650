// Sets of strings that an automaton can tell apart, to combine several conditions on one string: patterns, lengths,
// names that are taken.
#pragma once

#include "text/grammar/json_schema/string_pattern.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// A deterministic automaton over code points. What makes one throws an Error where it would have too many states.
class StringSet {
 public:
  static constexpr size_t kMaxStates = 4000;

  struct Edge {
    uint32_t first, last; // code points, both included
    uint32_t target;
  };
  struct State {
    std::vector<Edge> edges; // sorted, disjoint; a character without an edge leads nowhere
    bool accepts = false;
  };

  explicit StringSet(const StringPattern& pattern);
  static StringSet of_length(uint32_t min, std::optional<uint32_t> max); // in characters
  static StringSet of_texts(std::span<const std::string> texts);
  static StringSet of_multiples(uint32_t step);            // in decimal, leading zeros included
  static StringSet without_character(uint32_t code_point); // all strings in which it does not occur

  StringSet both(const StringSet& other) const;
  StringSet complement() const;

  bool empty() const { return states_[0].edges.empty() && !states_[0].accepts; }
  bool contains(std::string_view utf8) const;
  // The first one is the start.
  const std::vector<State>& states() const { return states_; }

 private:
  StringSet() : states_(1) {}
  // The set of the pattern as it is, without its look-ahead.
  static StringSet of_node(const PatternNode& node);
  uint32_t add_state(bool accepts);
  void trim(); // drops the states from which no accepting one can be reached

  std::vector<State> states_;
};

} // namespace ridge::text
