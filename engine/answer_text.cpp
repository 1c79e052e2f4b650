#include "engine/answer_text.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {

// Markers of reasoning may be control tokens, so a chat renders the text of control tokens; the splitter removes them.
AnswerText::AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
                       std::optional<std::string_view> chat_prompt)
    : decoder_(tokenizer, {.render_special = chat_prompt.has_value(), .continues = true}), stops_(std::move(stop)) {
  if (chat_prompt) splitter_.emplace(*chat_prompt);
}

AnswerText::Piece AnswerText::push(int32_t token) { return take(stops_.push(decoder_.push(token))); }

AnswerText::Piece AnswerText::finish() {
  Piece piece;
  const auto add = [&](Piece more) {
    piece.content += more.content;
    piece.reasoning += more.reasoning;
  };
  if (!stopped()) {
    add(take(stops_.push(decoder_.finish())));
    add(take(stops_.finish()));
  }
  if (splitter_) add(trimmed(splitter_->finish()));
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
  return {std::move(piece.answer), std::move(piece.reasoning)};
}

} // namespace ridge::engine
