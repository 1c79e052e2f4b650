// String sets, to intersect patterns, lengths and exclusions.
#pragma once

#include "text/grammar/json_schema/string_pattern.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// A DFA over code points. Factories throw Error beyond kMaxStates.
class StringSet {
 public:
  static constexpr size_t kMaxStates = 4000;

  struct Edge {
    uint32_t first, last;
    uint32_t target;
  };
  struct State {
    std::vector<Edge> edges; // sorted, disjoint; other characters are rejected
    bool accepts = false;
  };

  explicit StringSet(const StringPattern& pattern);
  static StringSet of_length(uint32_t min, std::optional<uint32_t> max); // in characters
  static StringSet of_texts(std::span<const std::string> texts);
  static StringSet of_multiples(uint32_t step); // decimal, with leading zeros
  static StringSet without_character(uint32_t code_point);

  StringSet both(const StringSet& other) const;
  StringSet complement() const;

  bool empty() const { return states_[0].edges.empty() && !states_[0].accepts; }
  bool contains(std::string_view utf8) const;
  const std::vector<State>& states() const { return states_; }

 private:
  StringSet() : states_(1) {}
  static StringSet of_node(const PatternNode& node);
  uint32_t add_state(bool accepts);
  void trim(); // drops states that cannot reach an accepting one

  std::vector<State> states_;
};

} // namespace ridge::text
