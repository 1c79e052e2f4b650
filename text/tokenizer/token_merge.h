// The merge loop that byte-level BPE and SentencePiece BPE share: join the best neighbours until none can be joined.
// Symbols form a linked list and candidates a heap, so a word of n symbols costs O(n log n), however long it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::text {

struct Symbol {
  uint32_t start, bytes;  // part of the word; bytes = 0: joined to its left neighbour
  int32_t previous, next; // neighbours in the list, -1 at the ends
  int32_t id;             // token, -1 where the vocabulary has none
};

struct Merge {
  uint32_t rank; // lower is joined first; of equal ones, the leftmost
  int32_t id;    // token of both together, -1: they do not join
};

class Merger {
 public:
  std::vector<Symbol> symbols;

  void add_symbol(uint32_t start, uint32_t bytes, int32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({start, bytes, index - 1, -1, id});
  }

  // find_merge(const Symbol& left, const Symbol& right) -> Merge
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
      // Outdated where either was joined elsewhere since: the lengths no longer add up.
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

  // Appends the ids of what is left; of a symbol that is no token, those of its bytes, or `unknown_id` (-1: nothing).
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
    uint64_t key; // rank, left symbol
    int32_t right;
    uint32_t bytes;
    int32_t id;
    bool operator<(const Candidate& other) const { return key > other.key; } // the heap's top has the lowest key
  };
  std::vector<Candidate> heap_;
};

} // namespace ridge::text
