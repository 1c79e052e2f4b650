#include "engine/chat/conversation.h"

#include "core/error.h"
#include "engine/chat/compaction.h"
#include "engine/options.h"
#include "engine/pictures/picture_shelf.h"
#include "text/chat/messages.h"
#include "text/white_space.h"

#include <algorithm>

namespace ridge::engine {
namespace {

constexpr int64_t kSummaryShare = 4; // of the context, at most

} // namespace

void Conversation::set_system(std::string text) {
  if (!messages_.empty() && is_role(messages_[0], "system")) messages_.erase(0);
  if (text.empty()) return;
  const Json message = {{"role", "system"}, {"content", std::move(text)}};
  messages_.insert(messages_.begin(), message);
}

void Conversation::add_user(std::string text) { messages_.push_back({{"role", "user"}, {"content", std::move(text)}}); }

void Conversation::set_tools(ToolUse tools) {
  requests_.check_tools(tools);
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
  size_t next = first + 1;
  while (next < messages_.size() && !is_role(messages_[next], "user")) ++next;
  if (next >= messages_.size()) return false;
  messages_.erase(messages_.begin() + static_cast<long>(first), messages_.begin() + static_cast<long>(next));
  return true;
}

void Conversation::clear() {
  Json kept = Json::array();
  if (!messages_.empty() && is_role(messages_[0], "system")) kept.push_back(messages_[0]);
  messages_ = std::move(kept);
  pictures_.clear();
}

void Conversation::set_messages(const Json& json, const std::string& label) {
  const Json& list = json.is_object() && json.contains("messages") ? json["messages"] : json;
  messages_ = list == Json::array() ? list : text::read_messages(list, label, requests_.chat_template().source());
}

Generation Conversation::generation(const Json& messages, const api::SamplingOptions& sampling) const {
  return requests_.chat(messages, tools_ ? &*tools_ : nullptr, Json::object(), nullptr, {}, sampling);
}

int64_t Conversation::tokens_with(const std::string& user_text) const {
  Json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", user_text}});
  return std::ssize(generation(messages, {}).prompt);
}

Answer Conversation::answer(Answerer& answerer, const TextSink& sink, const std::atomic<bool>* cancel) {
  Generation asked = generation(messages_, answerer.sampling());
  const text::jinja::TaintedText prompt = *asked.chat_prompt;
  Answer answer = answerer.answer(std::move(asked), sink, cancel);
  if (answer.stop != StopReason::stopped) // else tokens run past the cut text
    requests_.remember(prompt, answer.raw, session_.tokens());

  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const text::ToolCall& call : answer.calls) {
    message["tool_calls"].push_back(
        text::read_call({{"name", call.name}, {"arguments", call.arguments}}, call.id, "call"));
  }
  messages_.push_back(std::move(message));
  return answer;
}

Conversation::Compaction Conversation::compact(Answerer& answerer, std::string_view instructions, const TextSink& sink,
                                               const std::atomic<bool>* cancel) {
  const size_t system = !messages_.empty() && is_role(messages_[0], "system") ? 1 : 0;
  if (messages_.size() == system) throw_error("there is no conversation to summarize");
  api::SamplingOptions sampling = answerer.sampling();
  sampling.grammar = sampling.grammar_file = sampling.json_schema = "";
  sampling.max_tokens = session_.context() / kSummaryShare;
  Json thought = Json::object(); // a summary needs no reasoning
  set_thinking(thought, false);
  const Json before = messages_;
  Compaction made;
  try {
    for (;; ++made.left_out) {
      Json messages = messages_;
      messages.push_back({{"role", "user"}, {"content", compaction_request(instructions)}});
      Generation asked = requests_.chat(messages, nullptr, thought, nullptr, {}, sampling);
      if (std::ssize(asked.prompt) + sampling.max_tokens <= session_.context()) {
        made.answer = answerer.answer(std::move(asked), sampling, sink, cancel);
        break;
      }
      if (!drop_oldest()) throw_error("the last exchange alone leaves no room for a summary: use /undo or /clear");
    }
  } catch (...) {
    messages_ = before;
    throw;
  }
  messages_ = before;
  const std::string summary(text::trim(made.answer.content));
  if (made.answer.stop == StopReason::interrupted) throw_error("stopped: the conversation is unchanged");
  if (summary.empty()) throw_error("the model wrote no summary: the conversation is unchanged");
  Json kept = Json::array();
  if (system == 1) kept.push_back(messages_[0]);
  messages_ = std::move(kept); // the old ones may come back: their pictures stay
  add_user(compacted_message(summary));
  return made;
}

} // namespace ridge::engine
