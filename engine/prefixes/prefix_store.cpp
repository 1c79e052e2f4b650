#include "engine/prefixes/prefix_store.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

namespace ridge::engine {
namespace {

constexpr int64_t kMaxShown = 200;
constexpr size_t kTokensShown = 24;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

} // namespace

struct PrefixStore::Node {
  Node* parent = nullptr;
  int64_t first = 0;
  std::vector<int32_t> tokens;
  std::vector<PrefixBlock> blocks;
  PrefixStates states;
  std::map<int32_t, std::unique_ptr<Node>> children;
  uint64_t last_used = 0;
  int64_t used_seconds = unix_seconds();

  int64_t end() const { return first + std::ssize(tokens); }
  // After a split the shared block belongs to the upper node.
  bool shares_first_block() const {
    return !blocks.empty() && !parent->blocks.empty() && blocks.front() == parent->blocks.back();
  }
};

PrefixStore::PrefixStore(const Shape& shape, int64_t budget, MakeBlock make_block)
    : shape_(shape), budget_(budget), make_block_(std::move(make_block)), root_(std::make_unique<Node>()) {}

PrefixStore::~PrefixStore() {
  while (!root_->children.empty()) { // recursive destruction could overflow the stack
    Node* leaf = root_.get();
    while (!leaf->children.empty()) leaf = leaf->children.begin()->second.get();
    leaf->parent->children.erase(leaf->tokens.front());
  }
}

PrefixStore::Place PrefixStore::walk(std::span<const int32_t> tokens) const {
  Place place{root_.get(), 0};
  while (place.common == place.node->end() && place.common < std::ssize(tokens)) {
    const auto child = place.node->children.find(tokens[place.common]);
    if (child == place.node->children.end()) break;
    place.node = child->second.get();
    place.common +=
        std::ranges::mismatch(place.node->tokens, tokens.subspan(place.common)).in1 - place.node->tokens.begin();
  }
  return place;
}

int64_t PrefixStore::usable(std::span<const int32_t> tokens) const {
  const Place place = walk(tokens);
  if (shape_.state_elements == 0) return place.common;
  for (const Node* node = place.node; node; node = node->parent)
    if (const auto behind = node->states.upper_bound(place.common); behind != node->states.begin())
      return std::prev(behind)->first;
  return 0;
}

PrefixStore::Start PrefixStore::find(std::span<const int32_t> tokens) {
  Start start{usable(tokens), {}, nullptr};
  const Place place = walk(tokens.first(start.tokens));
  touch(place.node);
  start.blocks.resize(end_block(start.tokens));
  for (const Node* node = place.node; node != root_.get(); node = node->parent) {
    if (const auto state = node->states.find(start.tokens); state != node->states.end()) start.state = state->second;
    for (size_t i = 0; i < node->blocks.size(); ++i)
      if (const size_t number = first_block(node->first) + i; number < start.blocks.size() && !start.blocks[number])
        start.blocks[number] = node->blocks[i];
  }
  return start;
}

void PrefixStore::touch(Node* node) {
  ++now_;
  const int64_t seconds = unix_seconds();
  for (; node; node = node->parent) node->last_used = now_, node->used_seconds = seconds;
}

// Returns the upper node.
PrefixStore::Node* PrefixStore::split(Node* node, int64_t position) {
  std::unique_ptr<Node>& slot = node->parent->children[node->tokens.front()];
  std::unique_ptr<Node> lower = std::move(slot);
  slot = std::make_unique<Node>();
  Node* upper = slot.get();
  const auto count = static_cast<std::ptrdiff_t>(position - node->first);
  upper->parent = node->parent;
  upper->first = node->first;
  upper->last_used = node->last_used;
  upper->used_seconds = node->used_seconds;
  upper->tokens.assign(node->tokens.begin(), node->tokens.begin() + count);
  node->tokens.erase(node->tokens.begin(), node->tokens.begin() + count);
  if (!node->blocks.empty()) {
    const int64_t start = first_block(node->first);
    upper->blocks.assign(node->blocks.begin(), node->blocks.begin() + (end_block(position) - start));
    node->blocks.erase(node->blocks.begin(), node->blocks.begin() + (first_block(position) - start));
  }
  while (!node->states.empty() && node->states.begin()->first <= position)
    upper->states.insert(node->states.extract(node->states.begin()));
  node->first = position;
  node->parent = upper;
  upper->children[node->tokens.front()] = std::move(lower);
  return upper;
}

int64_t PrefixStore::bytes_for(int64_t from, int64_t to, const PrefixStates& states) const {
  const int64_t blocks = to > from ? end_block(to) - first_block(from) : 0;
  return blocks * shape_.block_bytes + (to - from) * static_cast<int64_t>(sizeof(int32_t)) +
         std::ssize(states) * state_bytes();
}

int64_t PrefixStore::bytes_of(const Node& node) const {
  return bytes_for(node.first, node.end(), node.states) - (node.shares_first_block() ? shape_.block_bytes : 0);
}

int64_t PrefixStore::kept_bytes(const Node* used) const {
  std::set<const Node*> kept = {root_.get()};
  int64_t bytes = 0;
  const auto keep = [&](const Node* node) {
    for (; kept.insert(node).second; node = node->parent) bytes += bytes_of(*node);
  };
  keep(used);
  std::ranges::for_each(held_, keep);
  return bytes;
}

bool PrefixStore::fits(std::span<const int32_t> tokens, int64_t states) const {
  const Place place = walk(tokens);
  return kept_bytes(place.node) + bytes_for(place.common, std::ssize(tokens), {}) + states * state_bytes() <= budget_;
}

PrefixStore::Hold PrefixStore::hold(std::span<const int32_t> tokens) { return {*this, walk(tokens).node}; }

// Evicts leaves that are neither held nor touched last. Returns whether there is room.
bool PrefixStore::make_room(int64_t bytes) {
  while (bytes_ + bytes > budget_) {
    Node* oldest = nullptr;
    std::vector<Node*> open = {root_.get()};
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (const auto& [token, child] : node->children) open.push_back(child.get());
      const bool may_go = node != root_.get() && node->children.empty() && node->last_used != now_;
      if (may_go && (!oldest || node->last_used < oldest->last_used) && !held_.contains(node)) oldest = node;
    }
    if (!oldest) return false;
    evict(oldest);
  }
  return true;
}

void PrefixStore::evict(Node* leaf) {
  if (on_evict_) on_evict_(part_of(*leaf));
  const bool shares = leaf->shares_first_block();
  bytes_ -= bytes_of(*leaf);
  for (size_t i = shares ? 1 : 0; i < leaf->blocks.size(); ++i) free_block(std::move(leaf->blocks[i]));
  leaf->parent->children.erase(leaf->tokens.front());
}

int64_t PrefixStore::new_blocks() const {
  if (shape_.block_bytes == 0) return 0;
  return std::max<int64_t>(0, (budget_ - bytes_) / shape_.block_bytes - std::ssize(spare_));
}

PrefixBlock PrefixStore::take_block() {
  if (spare_.empty()) return make_block_();
  PrefixBlock block = std::move(spare_.back());
  spare_.pop_back();
  return block;
}

void PrefixStore::take_back(PrefixBlock block) {
  if (bytes_ + (std::ssize(spare_) + 1) * shape_.block_bytes <= budget_) free_block(std::move(block));
}

void PrefixStore::free_block(PrefixBlock block) {
  if (block.use_count() == 1) spare_.push_back(std::move(block)); // else being read
}

void PrefixStore::insert(std::span<const int32_t> tokens, const PrefixStates& states, const Fill& fill, int64_t least) {
  int64_t end = std::ssize(tokens);
  const Place place = walk(tokens);
  touch(place.node);
  const bool extends = end - place.common >= least;
  if (!extends) end = place.common;
  PrefixStates added;
  if (shape_.state_elements > 0)
    for (const auto& [position, state] : states)
      if (position > 0 && position <= end) added.emplace(position, state);
  for (const Node* node = place.node; node; node = node->parent)
    for (const auto& [position, state] : node->states)
      if (position <= place.common) added.erase(position); // later states of the node belong to another sequence
  if (added.size() > 1)
    for (const int64_t kept = kept_bytes(place.node);
         added.size() > 1 && kept + bytes_for(place.common, end, added) > budget_;)
      added.erase(added.begin());
  if (!make_room(bytes_for(place.common, end, added))) {
    if (shape_.state_elements > 0) return;
    while (end > place.common && bytes_ + bytes_for(place.common, end, added) > budget_)
      end = (end - 1) / shape_.block_positions * shape_.block_positions;
  }
  Node* node = place.node;
  if (end - place.common >= least) {
    if (place.common < node->end()) node = split(node, place.common);
    node = append(node, tokens.first(end), fill);
  }
  add_states(node, added);
}

void PrefixStore::add_states(Node* node, const PrefixStates& states) {
  for (; node != root_.get(); node = node->parent)
    for (auto at = states.upper_bound(node->first); at != states.end() && at->first <= node->end(); ++at)
      if (node->states.insert(*at).second) bytes_ += state_bytes();
}

PrefixStore::Node* PrefixStore::append(Node* parent, std::span<const int32_t> tokens, const Fill& fill) {
  auto made = std::make_unique<Node>();
  made->parent = parent;
  made->first = parent->end();
  made->last_used = now_;
  const auto rest = tokens.subspan(made->first);
  made->tokens.assign(rest.begin(), rest.end());
  if (shape_.block_bytes > 0) {
    for (int64_t i = first_block(made->first); i < end_block(made->end()); ++i) made->blocks.push_back(take_block());
    fill(first_block(made->first), made->blocks);
  }
  bytes_ += bytes_for(made->first, made->end(), {});
  return (parent->children[rest.front()] = std::move(made)).get();
}

PrefixPart PrefixStore::part_of(const Node& node) const {
  PrefixPart part{node.first, {}, node.blocks, node.states};
  part.tokens.resize(node.end());
  for (const Node* at = &node; at; at = at->parent) std::ranges::copy(at->tokens, part.tokens.begin() + at->first);
  return part;
}

void PrefixStore::for_each(const Visitor& see) const {
  std::vector<const Node*> all = {root_.get()};
  for (size_t i = 0; i < all.size(); ++i)
    for (const auto& [token, child] : all[i]->children) all.push_back(child.get());
  all.erase(all.begin());
  std::ranges::stable_sort(all, {}, &Node::last_used);
  std::ranges::for_each(all, [&](const Node* node) { see(part_of(*node)); });
}

int64_t PrefixStore::nodes() const {
  int64_t count = 0;
  for_each([&](const PrefixPart&) { ++count; });
  return count;
}

void PrefixStore::describe(api::Sequences& all) const {
  all.prefix_bytes = bytes_;
  all.prefix_budget = budget_;
  std::vector<const Node*> nodes = {root_.get()};
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const auto& [token, child] : nodes[i]->children) nodes.push_back(child.get());
  all.prefix_nodes = std::ssize(nodes) - 1;
  std::unordered_map<const Node*, int64_t> texts;
  for (size_t i = nodes.size() - 1; i > 0; --i) {
    int64_t& own = texts[nodes[i]];
    own = std::max<int64_t>(own, 1);
    texts[nodes[i]->parent] += own;
  }
  struct Open {
    const Node* node;
    int64_t branches;
  };
  std::vector<Open> open = {{root_.get(), 0}};
  while (!open.empty() && std::ssize(all.prefixes) < kMaxShown) {
    const auto [node, branches] = open.back();
    open.pop_back();
    if (node != root_.get()) {
      api::Sequences::Prefix part{.branches = branches,
                                  .first = node->first,
                                  .tokens = std::ssize(node->tokens),
                                  .texts = texts[node],
                                  .bytes = bytes_of(*node),
                                  .used = node->used_seconds,
                                  .held = held_.contains(node)};
      part.first_tokens.assign(node->tokens.begin(), node->tokens.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                                node->tokens.size(), kTokensShown)));
      all.prefixes.push_back(std::move(part));
    }
    const int64_t below = branches + (node != root_.get() && node->children.size() > 1 ? 1 : 0);
    const auto first = std::ssize(open);
    for (const auto& [token, child] : node->children) open.push_back({child.get(), below});
    std::ranges::stable_sort(open.begin() + first, open.end(), {}, [](const Open& o) { return o.node->last_used; });
  }
}

} // namespace ridge::engine
