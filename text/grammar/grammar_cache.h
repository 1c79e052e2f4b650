// Grammars by the text that they were made of, with their states, so that requests share them.
#pragma once

#include "text/grammar/grammar_masks.h"

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace ridge::text {

// Thread-safe.
class GrammarCache {
 public:
  static constexpr size_t kMaxBytes = 128u << 20; // drops the least recently used

  // `make` may throw.
  std::shared_ptr<const SharedGrammar> get(const std::string& key, const std::function<Grammar()>& make);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const SharedGrammar> grammar;
  };

  std::mutex mutex_;
  std::list<Entry> entries_;
};

} // namespace ridge::text
