// Caches call rules with the states of their grammars, since making them may take longer than starting an answer.
#pragma once

#include "core/lru_cache.h"
#include "engine/calls/call_constraint.h"

namespace ridge::engine {

class CallRulesCache {
 public:
  static constexpr size_t kMaxBytes = 128u << 20; // evicts the least recently used

  // Returns what make_call_rules() returns. All calls must use the same format, template and tokenizer. Thread-safe.
  std::shared_ptr<const CallRules> get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                       const ToolUse& use, const text::Tokenizer& tokenizer, std::string_view prompt,
                                       const nlohmann::ordered_json& answer_schema, bool begun);

 private:
  core::LruCache<CallRules> rules_{kMaxBytes};
};

} // namespace ridge::engine
