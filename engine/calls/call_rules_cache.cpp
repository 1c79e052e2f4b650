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

size_t bytes_of(const text::Grammar& grammar) {
  return grammar.states.size() * sizeof(grammar.states[0]) +
         grammar.class_nodes.size() * sizeof(grammar.class_nodes[0]);
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
  const size_t bytes = 4 * key.size() + bytes_of(rules->grammar);
  const std::scoped_lock lock(mutex_);
  entries_.push_front({std::move(key), rules, bytes});
  bytes_ += bytes;
  while (bytes_ > kMaxBytes) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return rules;
}

} // namespace ridge::engine
