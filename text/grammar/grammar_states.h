// A grammar's states: a lazily built deterministic automaton.
//
// Configuration: a place in a rule and its return stack. State: all configurations the text allows. Stacks share tails;
// stacks and sets are interned, so equal situations have equal IDs and "set + byte → set" is a table.
//
// A cut set replaces the common part of its stacks by an unknown bottom. Until it returns there, its behaviour does not
// depend on callers (in JSON strings: on depth), so its token masks are reusable.
#pragma once

#include "text/grammar/grammar.h"

#include <array>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ridge::text {

class GrammarStates {
 public:
  using SetId = uint32_t;
  using StackId = uint32_t;
  static constexpr SetId kDead = 0; // nothing can follow, and the output is incomplete

  // Configurations per matcher call; beyond it the grammar counts as too ambiguous.
  static constexpr int64_t kMaxWork = 2'000'000;

  // token_ids: for grammar.tokens. The grammar must outlive this.
  GrammarStates(const Grammar& grammar, std::vector<int32_t> token_ids);
  GrammarStates(const GrammarStates&) = delete;

  SetId start();
  SetId step(SetId set, uint8_t byte) {
    const uint32_t page = sets_[set].pages[byte >> 4];
    const SetId next = pages_[page][byte & 15];
    return next != kUnknown ? next : compute_step(set, byte);
  }
  // Follows token edges only.
  SetId step_token(SetId set, int32_t token);
  SetId unite(SetId a, SetId b);
  SetId ended();

  bool can_end(SetId set) const { return sets_[set].can_end; }
  // The text may have returned to the unknown bottom.
  bool reaches_bottom(SetId set) const { return sets_[set].reaches_bottom; }
  bool has_configurations(SetId set) const { return sets_[set].size > 0; }

  struct TokenEdge {
    int32_t id;
    bool negated;
  };
  void token_edges(SetId set, std::vector<TokenEdge>& edges) const;

  struct Cut {
    SetId local; // above the unknown bottom
    StackId base;
  };
  Cut cut(SetId set);
  // After a return into `base`.
  SetId resume(StackId base);

  // The only byte that may follow, or -1. A set that can end has none.
  int only_byte(SetId set) const;
  // The class (Grammar::char_class value) that `set` reads character by character: each of its characters leads to the
  // same set, and nothing else begins with their bytes. 0: none.
  uint32_t free_class(SetId set) const;
  // Whether a character of the class may come next, or a part of it.
  bool reads_class(SetId set, uint32_t char_class) const;

  // Resets the work limit; call it before each use.
  void begin();
  // Too many sets are remembered: continue in new states.
  bool is_full() const {
    return sets_.size() > kMaxSets || configurations_.size() > kMaxConfigurations || stacks_.size() > kMaxStacks;
  }
  size_t bytes() const {
    return sets_.size() * (sizeof(Set) + 16) + configurations_.size() * sizeof(Configuration) +
           pages_.size() * sizeof(pages_[0]) + stacks_.size() * (sizeof(Stack) + 32);
  }
  // The set of another automaton of the same grammar.
  SetId adopt(const GrammarStates& from, SetId set);

 private:
  static constexpr SetId kUnknown = ~0u;
  static constexpr StackId kBottom = 0, kEmpty = 1; // unknown stack; stack below root
  static constexpr size_t kMaxSets = 50'000, kMaxConfigurations = 2'000'000, kMaxStacks = 1'000'000;

  struct Configuration {
    uint32_t state;
    uint32_t in_class; // class node inside a code point, or 0
    StackId stack;
    auto operator<=>(const Configuration&) const = default;
  };
  struct Set {
    uint32_t first, size; // in configurations_
    bool can_end, reaches_bottom;
    std::array<uint32_t, 16> pages{}; // in pages_, by high nibble; page 0 is unknown
  };
  struct Stack {
    uint32_t return_state;
    StackId parent;
    uint32_t depth;
  };
  struct SetHash {
    const GrammarStates* owner;
    size_t operator()(SetId id) const;
  };
  struct SetEqual {
    const GrammarStates* owner;
    bool operator()(SetId a, SetId b) const;
  };

  void count_work(int64_t amount = 1);
  StackId push(uint32_t return_state, StackId parent);
  // Follows edges that read nothing; collects states that read.
  void add_closure(uint32_t state, StackId stack);
  SetId finish_closure();
  void drop_closure();
  SetId intern(size_t first, bool can_end, bool reaches_bottom);
  SetId compute_step(SetId set, uint8_t byte);
  StackId move_stack(const std::vector<Stack>& from, StackId id, StackId old_base, StackId new_base,
                     std::unordered_map<StackId, StackId>& moved);

  const Grammar& grammar_;
  std::vector<int32_t> token_ids_;
  std::vector<Set> sets_;
  std::vector<Configuration> configurations_;
  std::vector<std::array<SetId, 16>> pages_;
  std::vector<Stack> stacks_;
  std::unordered_set<SetId, SetHash, SetEqual> set_index_;
  std::unordered_map<uint64_t, StackId> stack_index_;
  int64_t work_left_ = kMaxWork;

  struct Place {
    uint32_t state;
    StackId stack;
  };
  std::vector<Place> open_;
  std::unordered_set<uint64_t> seen_;
  std::vector<Configuration> found_;
  bool found_end_ = false, found_bottom_ = false;
};

} // namespace ridge::text
