// States are emitted back to front: each knows its successor.
#include "text/grammar/grammar.h"

#include "core/error.h"
#include "text/grammar/grammar_syntax.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ridge::text {

namespace {

using Kind = Grammar::Kind;

// Builds byte automata of character classes; equal nodes are shared.
class ClassBuilder {
 public:
  explicit ClassBuilder(std::vector<std::array<uint16_t, 256>>& nodes) : nodes_(nodes) {
    nodes_.resize(2); // kNoMatch, kMatched: without edges
  }

  // Reads the first byte of a code point in `ranges` (sorted, disjoint).
  uint16_t start(const std::vector<CodePointRange>& ranges) {
    const auto known = starts_.find(ranges);
    if (known != starts_.end()) return known->second;
    std::array<uint16_t, 256> edges{};
    for (const CodePointRange& range : ranges) {
      for (uint32_t c = range.first; c <= range.last && c < 0x80; ++c) edges[c] = Grammar::kMatched;
    }
    const auto lead_bytes = [&](uint32_t first, uint32_t last, uint32_t offset, int continuations, uint32_t lowest) {
      for (uint32_t byte = first; byte <= last; ++byte) {
        edges[byte] = node(slice(ranges, (byte - offset) << (6 * continuations), continuations, lowest), continuations);
      }
    };
    lead_bytes(0xc2, 0xdf, 0xc0, 1, 0x80);
    lead_bytes(0xe0, 0xef, 0xe0, 2, 0x800);
    lead_bytes(0xf0, 0xf4, 0xf0, 3, 0x10000);
    return starts_[ranges] = add(edges);
  }

  std::map<uint32_t, std::vector<CodePointRange>> classes() const {
    std::map<uint32_t, std::vector<CodePointRange>> by_node;
    for (const auto& [ranges, node] : starts_) by_node[node] = ranges;
    return by_node;
  }

 private:
  using Ranges = std::vector<CodePointRange>;

  // Part of `ranges` with prefix `base`, relative to it, without surrogates and overlong forms (< `lowest`).
  static Ranges slice(const Ranges& ranges, uint32_t base, int continuations, uint32_t lowest) {
    Ranges part;
    const uint32_t end = base + (1u << (6 * continuations));
    const auto add_part = [&](CodePointRange range, uint32_t from, uint32_t to) {
      range.first = std::max({range.first, from, base});
      range.last = std::min({range.last, to, end - 1});
      if (range.first <= range.last) part.push_back({range.first - base, range.last - base});
    };
    auto range = std::lower_bound(ranges.begin(), ranges.end(), base,
                                  [](const CodePointRange& r, uint32_t value) { return r.last < value; });
    for (; range != ranges.end() && range->first < end; ++range) {
      add_part(*range, lowest, 0xd7ff);
      add_part(*range, std::max(lowest, 0xe000u), 0x10ffff);
    }
    return part;
  }

  // Reads `continuations` more bytes; their 6-bit groups form a value in `ranges`.
  uint16_t node(const Ranges& ranges, int continuations) {
    if (ranges.empty()) return Grammar::kNoMatch;
    if (continuations == 0) return Grammar::kMatched;
    const auto key = std::pair(continuations, ranges);
    const auto known = nodes_by_content_.find(key);
    if (known != nodes_by_content_.end()) return known->second;
    std::array<uint16_t, 256> edges{};
    const uint32_t step = 1u << (6 * (continuations - 1));
    for (uint32_t group = 0; group < 64; ++group) {
      Ranges part;
      for (const CodePointRange& range : ranges) {
        const uint32_t first = std::max(range.first, group * step), last = std::min(range.last, (group + 1) * step - 1);
        if (first <= last) part.push_back({first - group * step, last - group * step});
      }
      edges[0x80 | group] = node(part, continuations - 1);
    }
    return nodes_by_content_[key] = add(edges);
  }

  uint16_t add(const std::array<uint16_t, 256>& edges) {
    if (nodes_.size() >= Grammar::kMaxClassNodes) {
      throw_error("grammar: its character classes need more than {} nodes", Grammar::kMaxClassNodes);
    }
    nodes_.push_back(edges);
    return static_cast<uint16_t>(nodes_.size() - 1);
  }

  std::vector<std::array<uint16_t, 256>>& nodes_;
  std::map<Ranges, uint16_t> starts_;
  std::map<std::pair<int, Ranges>, uint16_t> nodes_by_content_;
};

class Compiler {
 public:
  explicit Compiler(GrammarSyntax syntax) : syntax_(std::move(syntax)), classes_(grammar_.class_nodes) {}

  Grammar compile() {
    add({Kind::accept, 0, 0});
    for (const auto& rule : syntax_.rules) rule_starts_.push_back(emit(rule.body, Grammar::kAccept));
    refuse_left_recursion();
    for (Grammar::State& state : grammar_.states) {
      if (state.kind == Kind::call) state.value = rule_starts_[state.value];
    }
    grammar_.start = rule_starts_[syntax_.root];
    grammar_.tokens = std::move(syntax_.tokens);
    grammar_.classes = classes_.classes();
    return std::move(grammar_);
  }

 private:
  using Node = GrammarNode;

  uint32_t add(Grammar::State state) {
    if (grammar_.states.size() >= Grammar::kMaxStates) {
      throw_error("grammar: more than {} states after expanding repetitions; lower the counts in {{m,n}}",
                  Grammar::kMaxStates);
    }
    grammar_.states.push_back(state);
    return static_cast<uint32_t>(grammar_.states.size() - 1);
  }

  // Adds states that read `node` and continue at `next`; returns the first. Calls hold rule numbers until all rules are
  // known.
  uint32_t emit(const Node& node, uint32_t next) {
    switch (node.kind) {
    case Node::Kind::literal:
      for (size_t i = node.bytes.size(); i-- > 0;) next = add({Kind::byte, static_cast<uint8_t>(node.bytes[i]), next});
      return next;
    case Node::Kind::char_class: return add({Kind::char_class, classes_.start(node.ranges), next});
    case Node::Kind::rule: return add({Kind::call, node.index, next});
    case Node::Kind::token: return add({Kind::token, node.index, next});
    case Node::Kind::sequence:
      for (size_t i = node.children.size(); i-- > 0;) next = emit(node.children[i], next);
      return next;
    case Node::Kind::alternatives: {
      uint32_t first = emit(node.children.back(), next);
      for (size_t i = node.children.size() - 1; i-- > 0;)
        first = add({Kind::split, first, emit(node.children[i], next)});
      return first;
    }
    case Node::Kind::repeat: return emit_repeat(node, next);
    }
    return next;
  }

  uint32_t emit_repeat(const Node& node, uint32_t next) {
    const Node& body = node.children[0];
    uint32_t first = next;
    if (node.max == Node::kUnlimited) {
      first = add({Kind::split, next, 0});
      const uint32_t loop = emit(body, first);
      grammar_.states[first].next = loop;
    } else {
      for (uint32_t i = node.min; i < node.max; ++i) {
        const uint32_t copy = emit(body, first);
        if (copy == first) break;
        first = add({Kind::split, next, copy});
      }
    }
    for (uint32_t i = 0; i < node.min; ++i) {
      const uint32_t copy = emit(body, first);
      if (copy == first) break;
      first = copy;
    }
    return first;
  }

  // Left recursion would grow the stack without end.
  void refuse_left_recursion() {
    const size_t rules = rule_starts_.size();
    std::vector<std::vector<uint32_t>> called_first(rules); // by each rule, before it reads anything
    find_first_calls(called_first);

    enum class Mark : uint8_t { unseen, open, done };
    std::vector<Mark> marks(rules, Mark::unseen);
    std::vector<std::pair<uint32_t, size_t>> path;
    for (uint32_t rule = 0; rule < rules; ++rule) {
      if (marks[rule] != Mark::unseen) continue;
      path.push_back({rule, 0});
      marks[rule] = Mark::open;
      while (!path.empty()) {
        auto& [current, followed] = path.back();
        if (followed == called_first[current].size()) {
          marks[current] = Mark::done;
          path.pop_back();
          continue;
        }
        const uint32_t callee = called_first[current][followed++];
        if (marks[callee] == Mark::open) fail_left_recursive(path, callee);
        if (marks[callee] == Mark::unseen) {
          marks[callee] = Mark::open;
          path.push_back({callee, 0});
        }
      }
    }
  }

  [[noreturn]] void fail_left_recursive(const std::vector<std::pair<uint32_t, size_t>>& path, uint32_t rule) const {
    const std::string& name = syntax_.rules[rule].name;
    std::string cycle = name;
    auto step = std::find_if(path.begin(), path.end(), [&](auto& p) { return p.first == rule; });
    for (++step; step != path.end() && cycle.size() < 200; ++step) cycle += " → " + syntax_.rules[step->first].name;
    throw_error("grammar: rule `{}` is left-recursive ({} → {}); write it as a repetition: x ( \",\" x )*", name, cycle,
                name);
  }

  // Explores what each rule reaches without reading. A call suspends it until the called rule is known to match the
  // empty text.
  void find_first_calls(std::vector<std::vector<uint32_t>>& called_first) const {
    struct Position {
      uint32_t rule, state;
    };
    const auto& states = grammar_.states;
    std::vector<std::vector<Position>> waiting(rule_starts_.size());
    std::vector<bool> nullable(rule_starts_.size()), seen(states.size());
    std::vector<Position> open;
    for (uint32_t rule = 0; rule < rule_starts_.size(); ++rule) open.push_back({rule, rule_starts_[rule]});
    while (!open.empty()) {
      const auto [rule, at] = open.back();
      open.pop_back();
      if (at == Grammar::kAccept) {
        if (nullable[rule]) continue;
        nullable[rule] = true;
        open.insert(open.end(), waiting[rule].begin(), waiting[rule].end());
        waiting[rule].clear();
        continue;
      }
      if (seen[at]) continue; // a state belongs to one rule
      seen[at] = true;
      const Grammar::State& state = states[at];
      if (state.kind == Kind::split) {
        open.push_back({rule, state.next});
        open.push_back({rule, state.value});
      } else if (state.kind == Kind::call) {
        called_first[rule].push_back(state.value);
        if (nullable[state.value]) {
          open.push_back({rule, state.next});
        } else {
          waiting[state.value].push_back({rule, state.next});
        }
      }
    }
  }

  GrammarSyntax syntax_;
  Grammar grammar_;
  ClassBuilder classes_;
  std::vector<uint32_t> rule_starts_;
};

} // namespace

Grammar Grammar::parse(std::string_view gbnf) { return Compiler(parse_grammar_syntax(gbnf)).compile(); }

} // namespace ridge::text
