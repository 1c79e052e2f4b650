// What sequences have evaluated, kept in the host's memory: a tree over their tokens, in which sequences that begin
// alike share nodes. A node owns the blocks (core::Executor::save_blocks) with the rows of its tokens, and at some of
// its positions copies of what blocks have not (core::Executor::save_state): recurrent state, and what windows see. A
// prompt continues behind the longest path that it begins with; where such copies are needed, at the last one of them
// on the path.
//
// Blocks hold a fixed number of positions and nodes begin and end anywhere, so a node's first block also has the rows
// before its tokens, and its last one may have others behind them, which mean nothing there. Where two nodes on a path
// have a block in common, the lower one has its rows. A node that is split shares that block with its parent.
//
// All nodes together stay within a budget in bytes: the least recently used leaves go, but not those of paths that are
// held (Hold). One thread uses a store.
#pragma once

#include "core/view/sequences.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace ridge::engine {

inline constexpr int64_t kWorthKeeping = 16; // tokens; of fewer, a copy is not worth the trouble

// A number below those of pictures' tokens (text_pictures.h), which stands for a token from which on adapters count.
inline int32_t adapter_mark(uint64_t hash) {
  return -1 - (1 << 30) - static_cast<int32_t>(hash & ((uint64_t{1} << 30) - 1));
}
inline bool is_adapter_mark(int32_t token) { return token < -(1 << 30); }

using PrefixBlock = std::shared_ptr<std::byte>;
using PrefixState = std::shared_ptr<const float>;    // saved_floats() of them
using PrefixStates = std::map<int64_t, PrefixState>; // by position

// A path's last part: rows and states of the positions from `first` on.
struct PrefixPart {
  int64_t first = 0;
  std::vector<int32_t> tokens;     // from position 0 on
  std::vector<PrefixBlock> blocks; // from number first / block_positions on
  PrefixStates states;
};

class PrefixStore {
 private:
  struct Node;

 public:
  struct Shape {
    int64_t block_positions = 32, block_bytes = 0, state_elements = 0; // of f32
  };
  using MakeBlock = std::function<PrefixBlock()>;
  PrefixStore(const Shape& shape, int64_t budget, MakeBlock make_block);
  ~PrefixStore();

  // Sees each part before it goes, and in for_each().
  using See = std::function<void(const PrefixPart&)>;
  void on_evict(See see) { on_evict_ = std::move(see); }

  // With how many of these tokens a path begins, and how many of them one can start behind.
  int64_t common(std::span<const int32_t> tokens) const { return walk(tokens).common; }
  int64_t usable(std::span<const int32_t> tokens) const;

  struct Start {
    int64_t tokens = 0;
    std::vector<PrefixBlock> blocks; // from number 0 on
    PrefixState state;               // null where none is needed
  };
  Start find(std::span<const int32_t> tokens); // as many tokens as are usable

  // Writes rows of these tokens into blocks, from number `first` on.
  using Fill = std::function<void(int64_t first, std::span<const PrefixBlock> blocks)>;
  // Adds what is not there yet: all of it, or as much as there is room for; nothing where that is less than
  // `least` tokens. Where states are needed, tokens behind the last of `states` are of use to parts that build on them
  // only; of more states than the budget has room for the last ones are kept.
  void insert(std::span<const int32_t> tokens, const PrefixStates& states, const Fill& fill,
              int64_t least = kWorthKeeping);

  // Whether all of these tokens, with so many states, fit beside what is held.
  bool fits(std::span<const int32_t> tokens, int64_t states) const;
  // Keeps a path from going, as long as it lives. It must not outlive the store.
  class Hold {
   public:
    Hold(PrefixStore& store, const Node* node) : store_(&store), node_(node) { store_->held_.insert(node_); }
    Hold(Hold&& other) noexcept : store_(other.store_), node_(std::exchange(other.node_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(store_, other.store_);
      std::swap(node_, other.node_);
      return *this;
    }
    ~Hold() {
      if (node_) store_->held_.erase(store_->held_.find(node_));
    }

   private:
    PrefixStore* store_;
    const Node* node_;
  };
  Hold hold(std::span<const int32_t> tokens); // that have a path

  // Keeps the block of a part that went for use again, where nothing reads it and there is room for it.
  void take_back(PrefixBlock block);

  void for_each(const See& see) const; // the least recently used first
  int64_t bytes() const { return bytes_; }
  int64_t new_blocks() const; // that may still be made
  int64_t nodes() const;
  void describe(core::Sequences& all) const; // its nodes, for people to look at; of very many the last used ones

 private:
  struct Place {
    Node* node;     // the last one on the path
    int64_t common; // tokens up to there
  };
  Place walk(std::span<const int32_t> tokens) const;
  void touch(Node* node);
  Node* split(Node* node, int64_t position);
  int64_t bytes_for(int64_t from, int64_t to, const PrefixStates& states) const;
  int64_t bytes_of(const Node& node) const;
  int64_t kept_bytes(const Node* used) const;
  bool make_room(int64_t bytes);
  void evict(Node* leaf);
  void add_states(Node* node, const PrefixStates& states);
  Node* append(Node* parent, std::span<const int32_t> tokens, const Fill& fill);
  PrefixBlock take_block();
  void free_block(PrefixBlock block);
  int64_t first_block(int64_t position) const { return position / shape_.block_positions; }
  int64_t end_block(int64_t position) const { return first_block(position + shape_.block_positions - 1); }
  int64_t state_bytes() const { return shape_.state_elements * static_cast<int64_t>(sizeof(float)); }
  PrefixPart part_of(const Node& node) const;

  const Shape shape_;
  const int64_t budget_;
  const MakeBlock make_block_;
  See on_evict_;
  std::unique_ptr<Node> root_;
  std::multiset<const Node*> held_; // where paths that are held end
  std::vector<PrefixBlock> spare_;  // of nodes that went: new memory costs more
  int64_t bytes_ = 0;
  uint64_t now_ = 0; // counts uses
};

} // namespace ridge::engine
