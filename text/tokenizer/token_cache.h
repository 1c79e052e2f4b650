// Caches IDs of short words, one cache line each.
#pragma once

#include "text/tokenizer/token_hash.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace ridge::text {

class WordCache {
 public:
  WordCache() : entries_(kEntries) {}

  // On a miss, encode() must append to `ids`.
  template <class Encode>
  void append(std::string_view word, std::vector<int32_t>& ids, Encode&& encode) {
    if (word.empty() || word.size() > kMaxWordBytes) return encode();
    Entry& entry = entries_[hash_bytes(word) & (kEntries - 1)];
    if (entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
      return;
    }
    const size_t before = ids.size();
    encode();
    const size_t count = ids.size() - before;
    if (count > kMaxIds) return;
    entry.bytes = static_cast<uint8_t>(word.size());
    std::memcpy(entry.word, word.data(), word.size());
    entry.count = static_cast<uint32_t>(count);
    std::copy(ids.begin() + before, ids.end(), entry.ids);
  }

 private:
  static constexpr size_t kMaxWordBytes = 31, kMaxIds = 7;
  struct Entry {
    uint8_t bytes = 0;
    char word[kMaxWordBytes];
    uint32_t count;
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Entry) == 64);
  static constexpr size_t kEntries = 1 << 14; // 1 MB: fits a core's L2
  std::vector<Entry> entries_;
};

// Reusable working memory: encode() is const and may run on several threads, so each call borrows its own item.
template <class T>
class Pool {
 public:
  class Lease {
   public:
    Lease(Pool& pool, std::unique_ptr<T> item, bool kept) : pool_(pool), item_(std::move(item)), kept_(kept) {}
    ~Lease() {
      if (!kept_) return;
      const std::lock_guard lock(pool_.mutex_);
      pool_.idle_.push_back(std::move(item_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T& operator*() const { return *item_; }
    T* operator->() const { return item_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<T> item_;
    const bool kept_;
  };

  // `bytes`: size of the text. The pool discards items that grew for a long text.
  Lease borrow(size_t bytes) {
    constexpr size_t kMaxKept = 1 << 18;
    if (bytes > kMaxKept) return Lease(*this, std::make_unique<T>(), false);
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto item = std::move(idle_.back());
        idle_.pop_back();
        return Lease(*this, std::move(item), true);
      }
    }
    return Lease(*this, std::make_unique<T>(), true);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

} // namespace ridge::text
