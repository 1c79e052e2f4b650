#include "engine/chat/answer_text.h"

#include "text/calls/call_values.h"
#include "text/schema/schema.h"
#include "text/white_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace ridge::engine {

// Reasoning markers may be control tokens, so chats render those; the splitter removes them.
AnswerText::AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
                       std::optional<std::string_view> chat_prompt, std::shared_ptr<const CallRules> calls)
    : decoder_(tokenizer, {.render_special = chat_prompt.has_value(), .continues = true}), stops_(std::move(stop)),
      rules_(std::move(calls)) {
  const bool may_call = rules_ && !rules_->tools.empty();
  if (chat_prompt) splitter_.emplace(*chat_prompt, may_call);
  if (may_call) parser_.emplace(*rules_->syntax, rules_->tools, std::random_device{}());
  undecided_ = may_call && rules_->json;
  if (rules_ && rules_->answer_check)
    content_check_ = std::shared_ptr<const text::SchemaValidator>(rules_, &*rules_->answer_check);
}

void AnswerText::begin_with(std::string_view text) {
  if (!splitter_) return;
  splitter_->begin_with(text);
  begun_ = !splitter_->in_reasoning() && !text::trim_left(text).empty();
}

void AnswerText::check_content(const nlohmann::ordered_json& schema) {
  content_check_ = std::make_shared<const text::SchemaValidator>(text::clean_schema(schema));
}

AnswerText::Piece AnswerText::push(int32_t token) {
  Piece piece = take(stops_.push(decoder_.push(token)));
  note(piece);
  return piece;
}

AnswerText::Piece AnswerText::finish() {
  Piece piece;
  const auto add = [&](Piece more) {
    piece.content += more.content;
    piece.reasoning += more.reasoning;
    std::ranges::move(more.calls, std::back_inserter(piece.calls));
  };
  if (!stopped()) {
    add(take(stops_.push(decoder_.finish())));
    add(take(stops_.finish()));
  }
  if (splitter_) add(trimmed(splitter_->finish()));
  if (parser_) read_calls(piece, true);
  note(piece);
  check_answer();
  return piece;
}

AnswerText::Piece AnswerText::take(const std::string& part) {
  raw_ += part;
  return splitter_ ? trimmed(splitter_->push(part)) : Piece{part, {}};
}

// White space before a chat's answer belongs to the template.
AnswerText::Piece AnswerText::trimmed(text::ReasoningSplitter::Piece piece) {
  if (!begun_) piece.answer.erase(0, std::min(piece.answer.size(), piece.answer.find_first_not_of(" \n")));
  begun_ |= !piece.answer.empty();
  Piece result = {std::move(piece.answer), std::move(piece.reasoning)};
  if (parser_) read_calls(result, false);
  return result;
}

bool AnswerText::begins_otherwise(std::string_view content) {
  start_ += content;
  undecided_ = std::ranges::any_of(rules_->triggers, [&](const auto& trigger) { return trigger.starts_with(start_); });
  return !undecided_ &&
         std::ranges::none_of(rules_->triggers, [&](const auto& trigger) { return start_.starts_with(trigger); });
}

// Moves calls out of the content. A JSON answer has calls from its start or none: what looks like a call inside the
// JSON is content.
void AnswerText::read_calls(Piece& piece, bool last) {
  if (!last && undecided_ && begins_otherwise(piece.content)) {
    piece.content.insert(0, parser_->finish().content);
    parser_.reset();
    return;
  }
  text::CallParser::Piece found = last ? parser_->finish() : parser_->push(piece.content);
  if (last)
    piece.content += found.content;
  else
    piece.content = std::move(found.content);
  for (text::CallParser::Delta& delta : found.calls) {
    calls_ += delta.ends;
    piece.calls.push_back(std::move(delta));
  }
}

void AnswerText::note(const Piece& piece) {
  if (content_check_) checked_content_ += piece.content;
  for (const text::CallParser::Delta& delta : piece.calls) {
    if (delta.begins) begun_calls_.push_back({delta.id, delta.name, {}});
    text::ToolCall& call = begun_calls_[delta.index];
    call.arguments += delta.arguments;
    if (!delta.ends) continue;
    const auto tool = std::ranges::find(rules_->tools, call.name, &text::Tool::name);
    if (tool == rules_->tools.end()) continue;
    const auto& check = rules_->tool_checks[static_cast<size_t>(tool - rules_->tools.begin())];
    const std::string complaint = check.complaint(text::parse_json(call.arguments));
    if (!complaint.empty())
      schema_misses_.push_back(fmt::format("the call of {} does not match its schema: {}", call.name, complaint));
  }
}

void AnswerText::check_answer() {
  if (!content_check_ || calls_ > 0) return;
  const auto value = text::parse_json(checked_content_);
  if (value.is_discarded()) return;
  const std::string complaint = content_check_->complaint(value);
  if (!complaint.empty()) schema_misses_.push_back(fmt::format("the answer does not match its schema: {}", complaint));
}

} // namespace ridge::engine
