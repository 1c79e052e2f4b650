// The states a grammar can be in while text is read. They are computed on demand and cached.
//
// A configuration is a place in a rule plus the stack of places to return to; a state is the set of configurations that
// the text so far allows. Stacks share their tails and both stacks and sets are interned, so a set is a small number,
// two equal situations are the same number, and "set + byte → set" is a lazily filled table: a lazily built
// deterministic automaton.
//
// A set can also be `cut`: the part of the stacks that all its configurations share is replaced by an unknown bottom.
// What a cut set does until it returns into that bottom does not depend on where it was called from: inside a JSON
// string it is the same cut set at any depth. This is what makes token masks worth remembering.
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
  static constexpr SetId kDead = 0; // nothing can follow and the text is no complete output

  // How many configurations one call of the matcher may look at before the grammar counts as too ambiguous.
  static constexpr int64_t kMaxWork = 2'000'000;

  // token_ids: for each of grammar.tokens the id that it means. The grammar must outlive this.
  GrammarStates(const Grammar& grammar, std::vector<int32_t> token_ids);
  GrammarStates(const GrammarStates&) = delete;

  SetId start();
  // The set after `byte`.
  SetId step(SetId set, uint8_t byte) {
    const uint32_t page = sets_[set].pages[byte >> 4];
    const SetId next = pages_[page][byte & 15];
    return next != kUnknown ? next : compute_step(set, byte);
  }
  // The set after a token that the grammar refers to by id: token edges only, bytes are step()'s.
  SetId step_token(SetId set, int32_t token);
  SetId unite(SetId a, SetId b);
  SetId ended(); // a complete output that nothing may follow

  bool can_end(SetId set) const { return sets_[set].can_end; }
  // The text may have left the rule at the unknown bottom.
  bool reaches_bottom(SetId set) const { return sets_[set].reaches_bottom; }
  bool has_configurations(SetId set) const { return sets_[set].size > 0; }

  struct TokenEdge {
    int32_t id;
    bool negated;
  };
  void token_edges(SetId set, std::vector<TokenEdge>& edges) const;

  struct Cut {
    SetId local;  // the set above an unknown bottom
    StackId base; // the stack that was there
  };
  Cut cut(SetId set);
  // The set after returning into `base`.
  SetId resume(StackId base);

  // Starts the work limit anew. If the memory is getting full, forgets all sets but `current` and returns its new id;
  // every other SetId, also in caches, is then invalid, and `forgotten` is set.
  SetId begin(SetId current, bool& forgotten);

 private:
  static constexpr SetId kUnknown = ~0u;
  static constexpr StackId kBottom = 0, kEmpty = 1; // an unknown stack; the stack below root
  static constexpr size_t kMaxSets = 50'000, kMaxConfigurations = 2'000'000, kMaxStacks = 1'000'000;

  struct Configuration {
    uint32_t state;    // kind byte, char_class or token
    uint32_t in_class; // the class node within a code point, or 0
    StackId stack;
    auto operator<=>(const Configuration&) const = default;
  };
  struct Set {
    uint32_t first, size; // of configurations_
    bool can_end, reaches_bottom;
    std::array<uint32_t, 16> pages{}; // of pages_, by high nibble; page 0 is all unknown
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

  void clear();
  void count_work(int64_t amount = 1);
  StackId push(uint32_t return_state, StackId parent);
  // Follows everything that reads nothing from a place; collects what reads.
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

  // For the closure that is being built.
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
