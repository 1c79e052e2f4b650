#include "text/grammar/grammar_cache.h"

namespace ridge::text {

std::shared_ptr<const SharedGrammar> GrammarCache::get(const std::string& key, const std::function<Grammar()>& make) {
  return grammars_.get(
      key, [&] { return std::make_shared<const SharedGrammar>(make()); },
      [](const std::string& of, const SharedGrammar& grammar) { return 2 * of.size() + grammar.bytes(); });
}

} // namespace ridge::text
