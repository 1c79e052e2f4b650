#include "engine/calls/call_rules_cache.h"

#include "text/calls/call_values.h"

#include <algorithm>

namespace ridge::engine {
namespace {

std::string key_of(const ToolUse& use, const CallStart& start, const nlohmann::ordered_json& answer_schema) {
  nlohmann::ordered_json key = {use.required, use.parallel, start.in_reasoning, start.open, start.close};
  key.push_back(answer_schema);
  for (const text::Tool& tool : use.tools) key.push_back({tool.name, tool.parameters});
  return text::compact_json(key);
}

} // namespace

std::shared_ptr<const CallRules> CallRulesCache::get(const CallFormat& format, const text::ChatTemplate& chat_template,
                                                     const ToolUse& use, const text::Tokenizer& tokenizer,
                                                     std::string_view prompt,
                                                     const nlohmann::ordered_json& answer_schema, bool begun) {
  const bool bound = use.required || !answer_schema.is_null();
  std::string key = key_of(use, bound && !begun ? call_start(chat_template, prompt) : CallStart(), answer_schema);
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(entries_, key, &Entry::key);
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      return known->rules;
    }
  }
  auto rules = make_call_rules(format, chat_template, use, tokenizer, prompt, answer_schema, begun);
  const std::scoped_lock lock(mutex_);
  entries_.push_front({std::move(key), rules});
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    bytes += 4 * entry->key.size() + entry->rules->grammar->bytes(); // its states grow while it is used
    if (bytes <= kMaxBytes || entry == entries_.begin()) continue;
    entries_.erase(entry, entries_.end());
    break;
  }
  return rules;
}

} // namespace ridge::engine
