// Evaluated prefixes in host memory, as a tree over tokens. A node owns blocks with its tokens' rows and, at some
// positions, states (recurrent state, window contents). A prompt continues after its longest path or, if states are
// needed, after the last state on it. A byte budget evicts the least recently used leaves, except on held paths. Not
// thread-safe.
// Nodes may begin and end inside a block. A node's first block also has the rows before its tokens; its last block may
// have meaningless rows at its end. Where nodes on a path share a block, the lower one has the valid rows. A split node
// shares the block with its parent.
#pragma once

#include "api/sequences.h"

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

inline constexpr int64_t kWorthKeeping = 16; // tokens; copying fewer does not pay

// Marks the token at which adapters begin to apply. Lower than all picture tokens (text_pictures.h).
inline int32_t adapter_mark(uint64_t hash) {
  return -1 - (1 << 30) - static_cast<int32_t>(hash & ((uint64_t{1} << 30) - 1));
}
inline bool is_adapter_mark(int32_t token) { return token < -(1 << 30); }

using PrefixBlock = std::shared_ptr<std::byte>;
using PrefixState = std::shared_ptr<const float>; // saved_floats() values
using PrefixStates = std::map<int64_t, PrefixState>;

// The last part of a path, from position `first` on.
struct PrefixPart {
  int64_t first = 0;
  std::vector<int32_t> tokens;     // from position 0 on
  std::vector<PrefixBlock> blocks; // from block first / block_positions on
  PrefixStates states;
};

class PrefixStore {
 private:
  struct Node;

 public:
  struct Shape {
    int64_t block_positions = 32, block_bytes = 0, state_elements = 0; // state_elements: f32
  };
  using MakeBlock = std::function<PrefixBlock()>;
  PrefixStore(const Shape& shape, int64_t budget, MakeBlock make_block);
  ~PrefixStore();

  // Called before eviction and by for_each().
  using Visitor = std::function<void(const PrefixPart&)>;
  void on_evict(Visitor see) { on_evict_ = std::move(see); }

  // Length of the longest common path, and the number of tokens after which a stream can start.
  int64_t common(std::span<const int32_t> tokens) const { return walk(tokens).common; }
  int64_t usable(std::span<const int32_t> tokens) const;

  struct Start {
    int64_t tokens = 0;
    std::vector<PrefixBlock> blocks;
    PrefixState state;
  };
  Start find(std::span<const int32_t> tokens);

  // Writes the tokens' rows into blocks, from block `first` on.
  using Fill = std::function<void(int64_t first, std::span<const PrefixBlock> blocks)>;
  // Adds what is missing, as far as there is room; nothing below `least` tokens. If states are needed, tokens after the
  // last state are useful only for longer parts. With too many states, keeps the last ones.
  void insert(std::span<const int32_t> tokens, const PrefixStates& states, const Fill& fill,
              int64_t least = kWorthKeeping);

  // Whether the tokens and states fit beside held paths.
  bool fits(std::span<const int32_t> tokens, int64_t states) const;
  // Prevents eviction of a path. Must not outlive the store.
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
  Hold hold(std::span<const int32_t> tokens);

  // Keeps an evicted part's block for use again.
  void take_back(PrefixBlock block);

  void for_each(const Visitor& see) const;
  int64_t bytes() const { return bytes_; }
  int64_t new_blocks() const;
  int64_t nodes() const;
  void describe(api::Sequences& all) const;

 private:
  struct Place {
    Node* node;
    int64_t common;
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
  Visitor on_evict_;
  std::unique_ptr<Node> root_;
  std::multiset<const Node*> held_;
  std::vector<PrefixBlock> spare_; // fresh memory costs more
  int64_t bytes_ = 0;
  uint64_t now_ = 0;
};

} // namespace ridge::engine
