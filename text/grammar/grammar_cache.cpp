#include "text/grammar/grammar_cache.h"

#include <algorithm>

namespace ridge::text {

std::shared_ptr<const SharedGrammar> GrammarCache::get(const std::string& key, const std::function<Grammar()>& make) {
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(entries_, key, &Entry::key);
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      return known->grammar;
    }
  }
  auto made = std::make_shared<const SharedGrammar>(make());
  const std::scoped_lock lock(mutex_);
  entries_.push_front({key, made});
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    bytes += 2 * entry->key.size() + entry->grammar->bytes(); // states grow while they are used
    if (bytes <= kMaxBytes || entry == entries_.begin()) continue;
    entries_.erase(entry, entries_.end());
    break;
  }
  return made;
}

} // namespace ridge::text
