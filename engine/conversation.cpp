#include "engine/conversation.h"

#include "core/error.h"
#include "text/calls/call_values.h"

#include <algorithm>

namespace ridge::engine {
void Conversation::set_system(std::string text) {
  if (!messages_.empty() && is_role(messages_[0], "system")) messages_.erase(0);
  if (text.empty()) return;
  const Json message = {{"role", "system"}, {"content", std::move(text)}};
  messages_.insert(messages_.begin(), message);
}

void Conversation::add_user(std::string text) { messages_.push_back({{"role", "user"}, {"content", std::move(text)}}); }

void Conversation::set_tools(ToolUse tools) {
  make_call_rules(call_format_, template_, tools, model_.need_tokenizer(), {}); // says what is wrong with them
  tools_ = std::move(tools);
}

void Conversation::add_result(const text::ToolCall& call, std::string result) {
  messages_.push_back(
      {{"role", "tool"}, {"tool_call_id", call.id}, {"name", call.name}, {"content", std::move(result)}});
}

bool Conversation::drop_answer() {
  if (messages_.empty() || !is_role(messages_.back(), "assistant")) return false;
  messages_.erase(messages_.size() - 1);
  return true;
}

bool Conversation::undo() {
  bool answered = false;
  const auto is_answer = [&] { return is_role(messages_.back(), "assistant") || is_role(messages_.back(), "tool"); };
  for (; !messages_.empty() && is_answer(); answered = true) messages_.erase(messages_.size() - 1);
  if (messages_.empty() || !is_role(messages_.back(), "user")) return answered;
  messages_.erase(messages_.size() - 1);
  return true;
}

bool Conversation::drop_oldest() {
  const size_t first = !messages_.empty() && is_role(messages_[0], "system") ? 1 : 0;
  size_t next = first + 1; // the second user message: where the next exchange begins
  while (next < messages_.size() && !is_role(messages_[next], "user")) ++next;
  if (next >= messages_.size()) return false;
  messages_.erase(messages_.begin() + static_cast<long>(first), messages_.begin() + static_cast<long>(next));
  return true;
}

void Conversation::clear() {
  Json kept = Json::array();
  if (!messages_.empty() && is_role(messages_[0], "system")) kept.push_back(messages_[0]);
  messages_ = std::move(kept);
}

void Conversation::set_messages(const Json& json, const std::string& label) {
  const Json& list = json.is_object() && json.contains("messages") ? json["messages"] : json;
  check_messages(list, label);
  messages_ = list;
}

Conversation::Prompt Conversation::render(const Json& messages) const {
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  const CallMessages fitted = fit_messages(call_format_, messages, tools_ ? tools_->definitions : Json());
  text::ChatOptions options;
  options.tools = fitted.tools;
  options.extra = variables_;
  Prompt prompt{render_chat(model_, template_, fitted.messages, options), {}};
  prompt.tokens =
      known_.begins(prompt.text) ? known_.continued(tokenizer, prompt.text) : chat_tokens(tokenizer, prompt.text);
  return prompt;
}

int64_t Conversation::tokens_with(const std::string& user_text) const {
  Json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", user_text}});
  return std::ssize(render(messages).tokens);
}

Answer Conversation::answer(Answerer& answerer, const TextSink& sink, const std::atomic<bool>* cancel) {
  const Prompt prompt = render(messages_);
  std::shared_ptr<const CallRules> rules;
  if (const Json schema = answerer.schema(); tools_ || !schema.is_null())
    rules = make_call_rules(call_format_, template_, tools_.value_or(ToolUse()), model_.need_tokenizer(),
                            prompt.text.bytes(), schema);
  Answer answer = answerer.answer(prompt.tokens, prompt.text.bytes(), sink, cancel, std::move(rules));

  known_ = answer.stop == StopReason::stopped // tokens run past the cut text
               ? KnownText()
               : KnownText(model_.need_tokenizer(), prompt.text, answer.raw, session_.tokens());

  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const text::ToolCall& call : answer.calls) {
    Json arguments = text::parse_json(call.arguments);
    if (!arguments.is_object()) arguments = Json::object(); // the call was cut short
    message["tool_calls"].push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", arguments}}}});
  }
  messages_.push_back(std::move(message));
  return answer;
}

} // namespace ridge::engine
