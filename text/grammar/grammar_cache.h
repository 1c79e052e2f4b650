// Grammars by the text that they were made of, with their states, so that requests share them.
#pragma once

#include "core/lru_cache.h"
#include "text/grammar/grammar_masks.h"

#include <functional>

namespace ridge::text {

// Thread-safe.
class GrammarCache {
 public:
  static constexpr size_t kMaxBytes = 128u << 20; // drops the least recently used

  // `make` may throw.
  std::shared_ptr<const SharedGrammar> get(const std::string& key, const std::function<Grammar()>& make);

 private:
  core::LruCache<SharedGrammar> grammars_{kMaxBytes};
};

} // namespace ridge::text
