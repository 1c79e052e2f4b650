// Keeps the rules of requests for the next one with the same tools and schema: their grammars take longer to make than
// many an answer to begin.
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
  static constexpr size_t kMaxBytes = 128u << 20; // of schemas and grammars; what was not used for longest goes

  // What make_call_rules() gives for these arguments, now or before. All calls have the same format, template and
  // tokenizer. From any thread.
  std::shared_ptr<const CallRules> get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                       const ToolUse& use, const text::Tokenizer& tokenizer, std::string_view prompt,
                                       const nlohmann::ordered_json& answer_schema, bool begun);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CallRules> rules;
    size_t bytes;
  };

  std::mutex mutex_;
  std::list<Entry> entries_; // the last used first
  size_t bytes_ = 0;
};

} // namespace ridge::engine
