// BPE's merge loop: linked symbols and a heap of candidates, O(n log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::text {

struct Symbol {
  uint32_t start, bytes; // bytes = 0: merged to the left
  int32_t previous, next;
  int32_t id;
};

struct Merge {
  uint32_t rank; // lower first; ties: leftmost
  int32_t id;
};

class Merger {
 public:
  std::vector<Symbol> symbols;

  void add_symbol(uint32_t start, uint32_t bytes, int32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({start, bytes, index - 1, -1, id});
  }

  template <class FindMerge>
  void run(FindMerge&& find_merge) {
    heap_.clear();
    const auto propose = [&](int32_t left, int32_t right) {
      const Merge merge = find_merge(symbols[left], symbols[right]);
      if (merge.id < 0) return false;
      heap_.push_back({static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(left), right,
                       symbols[left].bytes + symbols[right].bytes, merge.id});
      return true;
    };
    for (size_t i = 1; i < symbols.size(); ++i) propose(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      const Candidate best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      const auto left_index = static_cast<int32_t>(best.key & 0xFFFFFFFFu);
      Symbol& left = symbols[left_index];
      Symbol& right = symbols[best.right];
      // Outdated if a symbol has grown: lengths differ.
      if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != best.bytes) continue;
      left.bytes = best.bytes;
      left.id = best.id;
      left.next = right.next;
      right.bytes = 0;
      if (left.next >= 0) symbols[left.next].previous = left_index;
      if (left.previous >= 0 && propose(left.previous, left_index)) std::push_heap(heap_.begin(), heap_.end());
      if (left.next >= 0 && propose(left_index, left.next)) std::push_heap(heap_.begin(), heap_.end());
    }
  }

  // Appends remaining symbols; unknown ones as bytes or `unknown_id` (-1: nothing).
  void emit(std::string_view word, std::span<const int32_t, 256> byte_ids, int32_t unknown_id,
            std::vector<int32_t>& ids) const {
    for (const Symbol& symbol : symbols) {
      if (symbol.bytes == 0) continue;
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
        continue;
      }
      for (const char c : word.substr(symbol.start, symbol.bytes)) {
        const int32_t id = byte_ids[static_cast<unsigned char>(c)];
        if (id >= 0 || unknown_id >= 0) ids.push_back(id >= 0 ? id : unknown_id);
      }
    }
  }

 private:
  struct Candidate {
    uint64_t key; // rank << 32 | left symbol
    int32_t right;
    uint32_t bytes;
    int32_t id;
    bool operator<(const Candidate& other) const { return key > other.key; }
  };
  std::vector<Candidate> heap_;
};

} // namespace ridge::text
