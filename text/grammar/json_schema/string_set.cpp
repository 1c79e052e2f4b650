#include "text/grammar/json_schema/string_set.h"

#include "core/error.h"
#include "core/strings/utf8.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ridge::text {
namespace {

using PatternKind = PatternNode::Kind;

constexpr size_t kMaxPatternSteps = 20'000;  // of a nondeterministic automaton
constexpr size_t kMaxSubsetWork = 3'000'000; // of the subset construction
constexpr uint32_t kLastCharacter = kAllCodePoints.last;

[[noreturn]] void fail_size() { throw_error("it has too many strings to distinguish"); }

// A nondeterministic automaton: a step reads a character, or continues at two places.
struct Steps {
  struct Step {
    const CodePoints* characters = nullptr; // nullptr: reads nothing
    uint32_t next = 0, other = 0;
  };
  static constexpr uint32_t kEnd = 0;

  Steps() : all(1) {}

  uint32_t add(Step step) {
    if (all.size() >= kMaxPatternSteps) fail_size();
    all.push_back(step);
    return static_cast<uint32_t>(all.size() - 1);
  }

  // Returns the first step that matches `node` and continues at `next`.
  uint32_t add_node(const PatternNode& node, uint32_t next) {
    switch (node.kind) {
    case PatternKind::one_of: return add({&node.characters, next, next});
    case PatternKind::sequence:
      for (size_t i = node.children.size(); i-- > 0;) next = add_node(node.children[i], next);
      return next;
    case PatternKind::alternatives: {
      uint32_t first = add_node(node.children.back(), next);
      for (size_t i = node.children.size() - 1; i-- > 0;)
        first = add({nullptr, add_node(node.children[i], next), first});
      return first;
    }
    case PatternKind::repeat: return add_repeat(node, next);
    }
    return next;
  }

  uint32_t add_repeat(const PatternNode& node, uint32_t next) {
    const PatternNode& body = node.children[0];
    uint32_t first = next;
    const uint32_t optional = node.max == PatternNode::kUnlimited ? 0 : node.max - node.min;
    if (node.max == PatternNode::kUnlimited) {
      first = add({nullptr, next, next});
      const uint32_t loop = add_node(body, first);
      all[first].other = loop;
    }
    for (uint32_t i = 0; i < optional; ++i) first = add({nullptr, next, add_node(body, first)});
    // Each copy adds a step, which limits copies of empty bodies.
    for (uint32_t i = 0; i < node.min; ++i) first = add({nullptr, add_node(body, first), kNowhere});
    return first;
  }

  static constexpr uint32_t kNowhere = ~0u;
  std::vector<Step> all;
};

// Subset construction.
class Subsets {
 public:
  explicit Subsets(const Steps& steps) : steps_(steps), seen_(steps.all.size(), 0) {}

  std::vector<StringSet::State> states(uint32_t first) {
    add_set(closure({first}));
    for (size_t i = 0; i < sets_.size(); ++i) {
      std::vector<StringSet::Edge> edges = edges_of(sets_[i]);
      states_[i].edges = std::move(edges);
    }
    return std::move(states_);
  }

 private:
  using Set = std::vector<uint32_t>;

  void work(size_t amount) {
    work_ += amount;
    if (work_ > kMaxSubsetWork) fail_size();
  }

  Set closure(Set open) {
    ++round_;
    Set reached;
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (at == Steps::kNowhere || seen_[at] == round_) continue;
      work(1);
      seen_[at] = round_;
      const Steps::Step& step = steps_.all[at];
      if (at == Steps::kEnd || step.characters != nullptr) {
        reached.push_back(at);
      } else {
        open.push_back(step.next);
        open.push_back(step.other);
      }
    }
    std::ranges::sort(reached);
    return reached;
  }

  uint32_t add_set(Set set) {
    const auto [known, is_new] = numbers_.try_emplace(std::move(set), static_cast<uint32_t>(states_.size()));
    if (!is_new) return known->second;
    if (states_.size() >= StringSet::kMaxStates) fail_size();
    states_.push_back({{}, !known->first.empty() && known->first[0] == Steps::kEnd});
    sets_.push_back(known->first);
    return known->second;
  }

  std::vector<StringSet::Edge> edges_of(const Set set) { // a copy: sets_ grows
    std::set<uint32_t> cuts;
    for (const uint32_t at : set)
      if (const CodePoints* characters = steps_.all[at].characters)
        for (const CodePointRange& range : *characters) {
          cuts.insert(range.first);
          cuts.insert(range.last + 1);
        }
    std::vector<StringSet::Edge> edges;
    for (auto cut = cuts.begin(); cut != cuts.end() && *cut <= kLastCharacter; ++cut) {
      Set next;
      for (const uint32_t at : set) {
        const CodePoints* characters = steps_.all[at].characters;
        work(1);
        if (characters == nullptr) continue;
        const auto range = std::ranges::upper_bound(*characters, *cut, {}, &CodePointRange::first);
        if (range != characters->begin() && std::prev(range)->last >= *cut) next.push_back(steps_.all[at].next);
      }
      if (next.empty()) continue;
      const uint32_t target = add_set(closure(std::move(next)));
      const uint32_t last = std::next(cut) == cuts.end() ? kLastCharacter : *std::next(cut) - 1;
      if (!edges.empty() && edges.back().target == target && edges.back().last + 1 == *cut)
        edges.back().last = last;
      else
        edges.push_back({*cut, last, target});
    }
    return edges;
  }

  const Steps& steps_;
  std::map<Set, uint32_t> numbers_;
  std::vector<Set> sets_;
  std::vector<StringSet::State> states_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  size_t work_ = 0;
};

} // namespace

StringSet::StringSet(const StringPattern& pattern) : StringSet(of_node(pattern.whole)) {
  for (const StringPattern::Ahead& ahead : pattern.aheads) {
    const StringSet set = of_node(ahead.whole);
    *this = both(ahead.negative ? set.complement() : set);
  }
}

StringSet StringSet::of_node(const PatternNode& node) {
  Steps steps;
  const uint32_t first = steps.add_node(node, Steps::kEnd);
  StringSet set;
  set.states_ = Subsets(steps).states(first);
  set.trim();
  return set;
}

StringSet StringSet::of_length(uint32_t min, std::optional<uint32_t> max) {
  StringSet set;
  const uint32_t last = max.value_or(min);
  set.states_[0].accepts = min == 0;
  for (uint32_t i = 1; i <= last; ++i) {
    set.states_[i - 1].edges = {{0, kLastCharacter, i}};
    set.add_state(i >= min);
  }
  if (!max) set.states_[last].edges = {{0, kLastCharacter, last}};
  return set;
}

StringSet StringSet::of_texts(std::span<const std::string> texts) {
  std::vector<std::map<uint32_t, uint32_t>> tree(1);
  std::vector<bool> ends(1);
  for (std::string_view text : texts) {
    uint32_t at = 0;
    while (!text.empty()) {
      const auto [edge, is_new] = tree[at].try_emplace(core::take_character(text), static_cast<uint32_t>(tree.size()));
      at = edge->second;
      if (!is_new) continue;
      if (tree.size() >= kMaxStates) fail_size();
      tree.emplace_back();
      ends.push_back(false);
    }
    ends[at] = true;
  }
  StringSet set;
  set.states_.resize(tree.size());
  for (size_t i = 0; i < tree.size(); ++i) {
    set.states_[i].accepts = ends[i];
    for (const auto& [character, target] : tree[i]) set.states_[i].edges.push_back({character, character, target});
  }
  set.trim();
  return set;
}

StringSet StringSet::of_multiples(uint32_t step) {
  StringSet set;
  constexpr uint32_t kSign = 1, kFirst = 2; // states before the remainders
  if (step + kFirst > kMaxStates) fail_size();
  set.states_.resize(step + kFirst);
  const auto add_digits = [&](uint32_t state, uint32_t remainder) {
    for (uint32_t digit = 0; digit < 10; ++digit)
      set.states_[state].edges.push_back({'0' + digit, '0' + digit, kFirst + (remainder * 10 + digit) % step});
  };
  set.states_[0].edges = {{'-', '-', kSign}};
  add_digits(0, 0);
  add_digits(kSign, 0);
  for (uint32_t remainder = 0; remainder < step; ++remainder) add_digits(kFirst + remainder, remainder);
  set.states_[kFirst].accepts = true;
  return set;
}

StringSet StringSet::without_character(uint32_t code_point) {
  StringSet set;
  set.states_[0].accepts = true;
  if (code_point > 0) set.states_[0].edges.push_back({0, code_point - 1, 0});
  set.states_[0].edges.push_back({code_point + 1, kLastCharacter, 0});
  return set;
}

uint32_t StringSet::add_state(bool accepts) {
  if (states_.size() >= kMaxStates) fail_size();
  states_.push_back({{}, accepts});
  return static_cast<uint32_t>(states_.size() - 1);
}

StringSet StringSet::both(const StringSet& other) const {
  StringSet set;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers = {{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> pairs = {{0, 0}};
  set.states_[0].accepts = states_[0].accepts && other.states_[0].accepts;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& mine = states_[pairs[i].first].edges;
    const auto& theirs = other.states_[pairs[i].second].edges;
    for (size_t a = 0, b = 0; a < mine.size() && b < theirs.size();) {
      const uint32_t first = std::max(mine[a].first, theirs[b].first), last = std::min(mine[a].last, theirs[b].last);
      if (first <= last) {
        const std::pair next = {mine[a].target, theirs[b].target};
        auto known = numbers.find(next);
        if (known == numbers.end()) {
          const bool accepts = states_[next.first].accepts && other.states_[next.second].accepts;
          known = numbers.emplace(next, set.add_state(accepts)).first;
          pairs.push_back(next);
        }
        set.states_[i].edges.push_back({first, last, known->second});
      }
      (mine[a].last < theirs[b].last ? a : b) += 1;
    }
  }
  set.trim();
  return set;
}

StringSet StringSet::complement() const {
  StringSet set = *this;
  const uint32_t nowhere = set.add_state(false);
  for (State& state : set.states_) {
    std::vector<Edge> edges;
    uint32_t next = 0;
    for (const Edge& edge : state.edges) {
      if (edge.first > next) edges.push_back({next, edge.first - 1, nowhere});
      edges.push_back(edge);
      next = edge.last + 1;
    }
    if (next <= kLastCharacter) edges.push_back({next, kLastCharacter, nowhere});
    state.edges = std::move(edges);
    state.accepts = !state.accepts;
  }
  set.trim();
  return set;
}

void StringSet::trim() {
  std::vector<std::vector<uint32_t>> before(states_.size());
  std::vector<uint32_t> open;
  std::vector<bool> useful(states_.size());
  for (uint32_t i = 0; i < states_.size(); ++i) {
    for (const Edge& edge : states_[i].edges) before[edge.target].push_back(i);
    if (states_[i].accepts) open.push_back(i);
  }
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (useful[at]) continue;
    useful[at] = true;
    open.insert(open.end(), before[at].begin(), before[at].end());
  }
  std::vector<uint32_t> numbers(states_.size());
  std::vector<State> kept;
  for (uint32_t i = 0; i < states_.size(); ++i)
    if (useful[i] || i == 0) {
      numbers[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(std::move(states_[i]));
      std::erase_if(kept.back().edges, [&](const Edge& edge) { return !useful[edge.target]; });
    }
  for (State& state : kept)
    for (Edge& edge : state.edges) edge.target = numbers[edge.target];
  states_ = std::move(kept);
}

bool StringSet::contains(std::string_view utf8) const {
  uint32_t at = 0;
  while (!utf8.empty()) {
    const uint32_t c = core::take_character(utf8);
    const auto& edges = states_[at].edges;
    const auto edge = std::ranges::upper_bound(edges, c, {}, &Edge::first);
    if (edge == edges.begin() || std::prev(edge)->last < c) return false;
    at = std::prev(edge)->target;
  }
  return states_[at].accepts;
}

} // namespace ridge::text
