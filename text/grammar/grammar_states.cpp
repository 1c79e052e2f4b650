#include "text/grammar/grammar_states.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace ridge::text {

namespace {

using Kind = Grammar::Kind;

uint64_t pack(uint32_t high, uint32_t low) { return static_cast<uint64_t>(high) << 32 | low; }

} // namespace

size_t GrammarStates::SetHash::operator()(SetId id) const {
  const Set& set = owner->sets_[id];
  uint64_t hash = static_cast<uint64_t>(set.can_end) | static_cast<uint64_t>(set.reaches_bottom) << 1;
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  for (uint32_t i = 0; i < set.size; ++i) {
    const Configuration& c = owner->configurations_[set.first + i];
    mix(pack(c.state, c.stack));
    mix(c.in_class);
  }
  return hash;
}

bool GrammarStates::SetEqual::operator()(SetId a, SetId b) const {
  const Set &x = owner->sets_[a], &y = owner->sets_[b];
  const auto* configurations = owner->configurations_.data();
  return x.can_end == y.can_end && x.reaches_bottom == y.reaches_bottom && x.size == y.size &&
         std::equal(configurations + x.first, configurations + x.first + x.size, configurations + y.first);
}

GrammarStates::GrammarStates(const Grammar& grammar, std::vector<int32_t> token_ids)
    : grammar_(grammar), token_ids_(std::move(token_ids)), pages_(1),
      stacks_({Stack{0, kBottom, 0}, Stack{0, kEmpty, 0}}), set_index_(64, SetHash{this}, SetEqual{this}) {
  pages_[0].fill(kUnknown);
  intern(0, false, false);
}

void GrammarStates::count_work(int64_t amount) {
  work_left_ -= amount;
  if (work_left_ < 0) {
    throw_error("grammar: too ambiguous: one token has more than {} continuations; rewrite the alternatives so that "
                "their beginnings differ",
                kMaxWork);
  }
}

GrammarStates::StackId GrammarStates::push(uint32_t return_state, StackId parent) {
  const auto [entry, is_new] =
      stack_index_.try_emplace(pack(return_state, parent), static_cast<StackId>(stacks_.size()));
  if (is_new) stacks_.push_back({return_state, parent, stacks_[parent].depth + 1});
  return entry->second;
}

void GrammarStates::add_closure(uint32_t first_state, StackId first_stack) {
  open_.push_back({first_state, first_stack});
  while (!open_.empty()) {
    const Place place = open_.back();
    open_.pop_back();
    count_work();
    const Grammar::State& state = grammar_.states[place.state];
    switch (state.kind) {
    case Kind::byte:
    case Kind::char_class:
    case Kind::token: found_.push_back({place.state, 0, place.stack}); continue;
    default: break;
    }
    if (!seen_.insert(pack(place.stack, place.state)).second) continue;
    if (state.kind == Kind::split) {
      open_.push_back({state.next, place.stack});
      open_.push_back({state.value, place.stack});
    } else if (state.kind == Kind::call) {
      // Tail call: a call at the end of a rule needs no stack entry.
      open_.push_back({state.value, state.next == Grammar::kAccept ? place.stack : push(state.next, place.stack)});
    } else if (place.stack == kBottom) {
      found_bottom_ = true;
    } else if (place.stack == kEmpty) {
      found_end_ = true;
    } else {
      const Stack& stack = stacks_[place.stack];
      open_.push_back({stack.return_state, stack.parent});
    }
  }
}

GrammarStates::SetId GrammarStates::finish_closure() {
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  const size_t first = configurations_.size();
  configurations_.insert(configurations_.end(), found_.begin(), found_.end());
  const SetId id = intern(first, found_end_, found_bottom_);
  drop_closure();
  return id;
}

void GrammarStates::drop_closure() {
  open_.clear();
  found_.clear();
  found_end_ = found_bottom_ = false;
  if (seen_.size() > 10'000) seen_ = {}; // clearing touches every bucket
  seen_.clear();
}

GrammarStates::SetId GrammarStates::ended() {
  found_end_ = true;
  return finish_closure();
}

// Interns configurations_ from `first` on; drops them if the set is known.
GrammarStates::SetId GrammarStates::intern(size_t first, bool can_end, bool reaches_bottom) {
  const auto id = static_cast<SetId>(sets_.size());
  sets_.push_back(
      {static_cast<uint32_t>(first), static_cast<uint32_t>(configurations_.size() - first), can_end, reaches_bottom});
  const auto [entry, is_new] = set_index_.insert(id);
  if (!is_new) {
    configurations_.resize(first);
    sets_.pop_back();
  }
  return *entry;
}

GrammarStates::SetId GrammarStates::start() {
  add_closure(grammar_.start, kEmpty);
  return finish_closure();
}

GrammarStates::SetId GrammarStates::compute_step(SetId set, uint8_t byte) {
  const Set from = sets_[set];
  count_work(1 + from.size / 16); // looking is cheaper than following
  for (uint32_t i = 0; i < from.size; ++i) {
    const Configuration c = configurations_[from.first + i];
    const Grammar::State& state = grammar_.states[c.state];
    if (state.kind == Kind::byte) {
      if (state.value == byte) add_closure(state.next, c.stack);
    } else if (state.kind == Kind::char_class) {
      const uint16_t node = grammar_.class_nodes[c.in_class != 0 ? c.in_class : state.value][byte];
      if (node == Grammar::kMatched) {
        add_closure(state.next, c.stack);
      } else if (node != Grammar::kNoMatch) {
        found_.push_back({c.state, node, c.stack});
      }
    }
  }
  const SetId next = finish_closure();
  uint32_t& page = sets_[set].pages[byte >> 4];
  if (page == 0) {
    page = static_cast<uint32_t>(pages_.size());
    pages_.push_back(pages_[0]);
  }
  pages_[page][byte & 15] = next;
  return next;
}

GrammarStates::SetId GrammarStates::step_token(SetId set, int32_t token) {
  const Set from = sets_[set];
  for (uint32_t i = 0; i < from.size; ++i) {
    const Configuration c = configurations_[from.first + i];
    const Grammar::State& state = grammar_.states[c.state];
    if (state.kind != Kind::token) continue;
    if ((token_ids_[state.value] == token) != grammar_.tokens[state.value].negated) add_closure(state.next, c.stack);
  }
  return finish_closure();
}

GrammarStates::SetId GrammarStates::unite(SetId a, SetId b) {
  if (a == kDead || a == b) return b;
  if (b == kDead) return a;
  for (const SetId id : {a, b}) {
    const Set& set = sets_[id];
    found_.insert(found_.end(), configurations_.begin() + set.first, configurations_.begin() + set.first + set.size);
    found_end_ |= set.can_end;
    found_bottom_ |= set.reaches_bottom;
  }
  return finish_closure();
}

void GrammarStates::token_edges(SetId set, std::vector<TokenEdge>& edges) const {
  edges.clear();
  for (uint32_t i = 0; i < sets_[set].size; ++i) {
    const Grammar::State& state = grammar_.states[configurations_[sets_[set].first + i].state];
    if (state.kind == Kind::token) edges.push_back({token_ids_[state.value], grammar_.tokens[state.value].negated});
  }
}

GrammarStates::StackId GrammarStates::move_stack(const std::vector<Stack>& from, StackId id, StackId old_base,
                                                 StackId new_base, std::unordered_map<StackId, StackId>& moved) {
  std::vector<StackId> path;
  StackId at = id;
  for (; at != old_base && !moved.contains(at); at = from[at].parent) path.push_back(at);
  StackId copy = at == old_base ? new_base : moved.at(at);
  for (; !path.empty(); path.pop_back()) {
    count_work();
    copy = push(from[path.back()].return_state, copy);
    moved[path.back()] = copy;
  }
  return copy;
}

GrammarStates::Cut GrammarStates::cut(SetId id) {
  const Set set = sets_[id];
  if (set.size == 0) return {id, kEmpty};
  StackId base = configurations_[set.first].stack;
  for (uint32_t i = 1; i < set.size; ++i) {
    StackId other = configurations_[set.first + i].stack;
    while (other != base) {
      StackId& deeper = stacks_[other].depth > stacks_[base].depth ? other : base;
      deeper = stacks_[deeper].parent;
      count_work();
    }
  }
  std::unordered_map<StackId, StackId> moved;
  for (uint32_t i = 0; i < set.size; ++i) {
    Configuration c = configurations_[set.first + i];
    // push() may move stacks_; each reference is read first.
    c.stack = move_stack(stacks_, c.stack, base, kBottom, moved);
    found_.push_back(c);
  }
  return {finish_closure(), base};
}

GrammarStates::SetId GrammarStates::resume(StackId base) {
  if (base == kEmpty) return ended();
  const Stack stack = stacks_[base];
  add_closure(stack.return_state, stack.parent);
  return finish_closure();
}

int GrammarStates::only_byte(SetId id) const {
  const Set& set = sets_[id];
  int only = -1;
  for (uint32_t i = 0; i < set.size; ++i) {
    const Grammar::State& state = grammar_.states[configurations_[set.first + i].state];
    const int byte = static_cast<int>(state.value);
    if (state.kind != Kind::byte || (only >= 0 && byte != only)) return -1;
    only = byte;
  }
  return set.can_end ? -1 : only;
}

uint32_t GrammarStates::free_class(SetId id) const {
  const Set& set = sets_[id];
  uint32_t free = 0;
  for (uint32_t i = 0; i < set.size && free == 0; ++i) {
    const Configuration& c = configurations_[set.first + i];
    if (c.in_class == 0 && grammar_.states[c.state].kind == Kind::char_class) free = grammar_.states[c.state].value;
  }
  if (free == 0) return 0;
  const auto& edges = grammar_.class_nodes[free];
  for (uint32_t i = 0; i < set.size; ++i) {
    const Configuration& c = configurations_[set.first + i];
    const Grammar::State& state = grammar_.states[c.state];
    if (state.kind == Kind::byte && edges[state.value] != Grammar::kNoMatch) return 0;
    if (state.kind != Kind::char_class || (c.in_class == 0 && state.value == free)) continue;
    const auto& others = grammar_.class_nodes[c.in_class != 0 ? c.in_class : state.value];
    for (size_t byte = 0; byte < others.size(); ++byte)
      if (others[byte] != Grammar::kNoMatch && edges[byte] != Grammar::kNoMatch) return 0;
  }
  return free;
}

bool GrammarStates::reads_class(SetId id, uint32_t char_class) const {
  const Set& set = sets_[id];
  const auto& edges = grammar_.class_nodes[char_class];
  for (uint32_t i = 0; i < set.size; ++i) {
    const Configuration& c = configurations_[set.first + i];
    const Grammar::State& state = grammar_.states[c.state];
    if (state.kind == Kind::byte && edges[state.value] != Grammar::kNoMatch) return true;
    if (state.kind != Kind::char_class) continue;
    const auto& others = grammar_.class_nodes[c.in_class != 0 ? c.in_class : state.value];
    for (size_t byte = 0; byte < others.size(); ++byte)
      if (others[byte] != Grammar::kNoMatch && edges[byte] != Grammar::kNoMatch) return true;
  }
  return false;
}

void GrammarStates::begin() {
  work_left_ = kMaxWork;
  drop_closure(); // may be left over after an Error
}

GrammarStates::SetId GrammarStates::adopt(const GrammarStates& from, SetId id) {
  const Set& set = from.sets_[id];
  std::unordered_map<StackId, StackId> moved;
  for (uint32_t i = 0; i < set.size; ++i) {
    Configuration c = from.configurations_[set.first + i];
    c.stack = move_stack(from.stacks_, c.stack, kEmpty, kEmpty, moved);
    found_.push_back(c);
  }
  found_end_ = set.can_end;
  return finish_closure();
}

} // namespace ridge::text
