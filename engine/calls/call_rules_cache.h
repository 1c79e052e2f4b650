// Caches call rules with the states of their grammars, since making them may take longer than starting an answer.
#pragma once

#include "engine/calls/call_constraint.h"

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace ridge::engine {

class CallRulesCache {
 public:
  static constexpr size_t kMaxBytes = 128u << 20; // evicts the least recently used

  // Returns what make_call_rules() returns. All calls must use the same format, template and tokenizer. Thread-safe.
  std::shared_ptr<const CallRules> get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                       const ToolUse& use, const text::Tokenizer& tokenizer, std::string_view prompt,
                                       const nlohmann::ordered_json& answer_schema, bool begun);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CallRules> rules;
  };

  std::mutex mutex_;
  std::list<Entry> entries_;
};

} // namespace ridge::engine
