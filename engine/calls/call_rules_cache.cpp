#include "engine/calls/call_rules_cache.h"

#include "text/calls/call_values.h"

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
  return rules_.get(
      key_of(use, bound && !begun ? call_start(chat_template, prompt) : CallStart(), answer_schema),
      [&] { return make_call_rules(format, chat_template, use, tokenizer, prompt, answer_schema, begun); },
      [](const std::string& key, const CallRules& rules) { return 4 * key.size() + rules.grammar->bytes(); });
}

} // namespace ridge::engine
