#include "engine/answer_text.h"

#include "text/white_space.h"

#include <algorithm>
#include <random>
#include <utility>

namespace ridge::engine {

// Markers of reasoning may be control tokens, so a chat renders the text of control tokens; the splitter removes them.
AnswerText::AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
                       std::optional<std::string_view> chat_prompt, std::shared_ptr<const CallRules> calls)
    : decoder_(tokenizer, {.render_special = chat_prompt.has_value(), .continues = true}), stops_(std::move(stop)),
      rules_(std::move(calls)) {
  const bool may_call = rules_ && !rules_->tools.empty();
  if (chat_prompt) splitter_.emplace(*chat_prompt, may_call);
  if (may_call) parser_.emplace(*rules_->syntax, rules_->tools, std::random_device{}());
  undecided_ = may_call && rules_->json;
}

void AnswerText::begin_with(std::string_view text) {
  if (!splitter_) return;
  splitter_->begin_with(text);
  begun_ = !splitter_->in_reasoning() && !text::trim_left(text).empty();
}

AnswerText::Piece AnswerText::push(int32_t token) { return take(stops_.push(decoder_.push(token))); }

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

// Whether the content so far, with this part of it, cannot become a call.
bool AnswerText::begins_otherwise(std::string_view content) {
  start_ += content;
  undecided_ = std::ranges::any_of(rules_->triggers, [&](const auto& trigger) { return trigger.starts_with(start_); });
  return !undecided_ &&
         std::ranges::none_of(rules_->triggers, [&](const auto& trigger) { return start_.starts_with(trigger); });
}

// The calls in the content of a piece, which loses them. The last piece has been searched already. An answer that is to
// be JSON has calls from its start on or none: what looks like one within the JSON is text.
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

} // namespace ridge::engine
