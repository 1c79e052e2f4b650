// A trie of byte strings with IDs.
#pragma once

#include "text/tokenizer/token_hash.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::text {

class TokenTrie {
 public:
  TokenTrie() : ids_{-1}, slots_(64) { root_.fill(-1); }

  // The first of equal texts wins.
  void insert(std::string_view text, int32_t id) {
    if (text.empty()) return;
    int32_t node = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t next = child(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(ids_.size());
        ids_.push_back(-1);
        add_edge(node, byte, next);
      }
      node = next;
    }
    if (ids_[node] < 0) ids_[node] = id;
  }

  bool empty() const { return ids_.size() == 1; }

  // -1: none. Node 0 is the root.
  int32_t child(int32_t node, unsigned char byte) const {
    if (node == 0) return root_[byte];
    const uint64_t key = static_cast<uint64_t>(node) << 8 | byte;
    for (size_t slot = mix(key) & (slots_.size() - 1); slots_[slot].node >= 0; slot = (slot + 1) & (slots_.size() - 1))
      if (slots_[slot].key == key) return slots_[slot].node;
    return -1;
  }
  int32_t id_at(int32_t node) const { return ids_[node]; }

  struct Match {
    int32_t id = -1;
    size_t bytes = 0;
  };
  Match longest(std::string_view text) const {
    Match best;
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) break;
      if (ids_[node] >= 0) best = {ids_[node], i + 1};
    }
    return best;
  }

 private:
  struct Slot {
    uint64_t key;
    int32_t node = -1;
  };

  void add_edge(int32_t node, unsigned char byte, int32_t next) {
    if (node == 0) {
      root_[byte] = next;
      return;
    }
    if (2 * ++edges_ > slots_.size()) {
      std::vector<Slot> old(2 * slots_.size());
      old.swap(slots_);
      for (const Slot& slot : old)
        if (slot.node >= 0) place(slot);
    }
    place({static_cast<uint64_t>(node) << 8 | byte, next});
  }
  void place(const Slot& edge) {
    size_t slot = mix(edge.key) & (slots_.size() - 1);
    while (slots_[slot].node >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = edge;
  }

  std::array<int32_t, 256> root_;
  std::vector<int32_t> ids_;
  std::vector<Slot> slots_; // edges below the root: open addressing, load ≤ 1/2
  size_t edges_ = 0;
};

} // namespace ridge::text
