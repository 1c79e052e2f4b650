// A cache of shared values by text, limited in bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace ridge::core {

// Thread-safe. Evicts the least recently used values; the latest one always stays.
template <typename Value>
class LruCache {
 public:
  explicit LruCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns the key's value, or that of `make()`, which runs without the lock and may throw. `bytes_of(key, value)` is
  // asked for all entries, since values may grow while they are used.
  template <typename Make, typename BytesOf>
  std::shared_ptr<const Value> get(std::string key, const Make& make, const BytesOf& bytes_of) {
    {
      const std::scoped_lock lock(mutex_);
      const auto known = std::ranges::find(entries_, key, &Entry::key);
      if (known != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, known);
        return known->value;
      }
    }
    std::shared_ptr<const Value> made = make();
    const std::scoped_lock lock(mutex_);
    entries_.push_front({std::move(key), made});
    size_t bytes = 0;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      bytes += bytes_of(entry->key, *entry->value);
      if (bytes <= max_bytes_ || entry == entries_.begin()) continue;
      entries_.erase(entry, entries_.end());
      break;
    }
    return made;
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Value> value;
  };

  const size_t max_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;
};

} // namespace ridge::core
