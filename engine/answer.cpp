#include "engine/answer.h"

#include "engine/answer_text.h"

#include <random>

namespace ridge::engine {

std::string_view name_of(StopReason stop) {
  switch (stop) {
  case StopReason::end_of_turn: return "end_of_turn";
  case StopReason::limit: return "limit";
  case StopReason::context_full: return "context_full";
  case StopReason::stopped: return "stop_string";
  case StopReason::interrupted: return "interrupted";
  }
  return "?";
}

Answerer::Answerer(const LoadedModel& model, Session& session, const core::GenerateRequest& request)
    : model_(model), session_(session), request_(request), params_(request.sampling.params),
      grammar_(grammar_text(request.sampling)) {
  core::validate(params_, model.program.vocab);
  if (params_.seed < 0) params_.seed = static_cast<int64_t>(std::random_device{}());
  if (grammar_.empty()) return;
  token_table_ = make_token_table(model.need_tokenizer());
  GrammarConstraint(grammar_, token_table_); // says what is wrong with it
}

Answer Answerer::answer(std::span<const int32_t> prompt, std::optional<std::string_view> chat_prompt,
                        const TextSink& sink, const std::atomic<bool>* cancel, std::shared_ptr<const CallRules> calls) {
  Answer answer;
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  SequenceRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.sampling = params_;
  request.limit = request_.sampling.max_tokens;
  request.keep_choices = request_.keep_choices;
  if (calls && (grammar_.empty() || !request_.sampling.json_schema.empty())) { // a chat's schema lets it reason first
    if (!token_table_) token_table_ = make_token_table(tokenizer);
    request.constraint = std::make_unique<CallConstraint>(calls, token_table_, tokenizer, *chat_prompt);
  } else if (!grammar_.empty()) {
    request.constraint = std::make_unique<GrammarConstraint>(grammar_, token_table_);
  }
  if (!request_.sampling.ignore_eos || request.constraint)
    request.is_end = [&](int32_t token) { return tokenizer.is_eog(token); };
  AnswerText answer_text(tokenizer, request_.sampling.stop, chat_prompt, std::move(calls));
  std::vector<text::ToolCall> begun;
  const auto emit = [&](const AnswerText::Piece& piece) {
    answer.reasoning += piece.reasoning;
    answer.content += piece.content;
    if (!piece.reasoning.empty()) sink(piece.reasoning, true);
    if (!piece.content.empty()) sink(piece.content, false);
    for (const text::CallParser::Delta& delta : piece.calls) {
      if (delta.begins) {
        sink((begun.empty() && answer.content.empty() ? "" : "\n") + delta.name + "(", false);
        begun.push_back({delta.id, delta.name, {}});
      }
      sink(delta.arguments, false);
      begun[delta.index].arguments += delta.arguments;
      if (!delta.ends) continue;
      sink(")", false);
      answer.calls.push_back(begun[delta.index]);
    }
  };

  request.on_token = [&](const Token& token) {
    model_.file.check(); // throws where the file was truncated: the token would be wrong
    emit(answer_text.push(token.id));
    if (token.choice) {
      answer.choices.push_back(*token.choice);
      answer.choices.back().end = static_cast<uint32_t>(answer.content.size());
    }
    return !answer_text.stopped();
  };
  answer.stop = session_.generate(std::move(request), cancel);
  answer.tokens = std::ssize(session_.tokens()) - std::ssize(prompt);
  emit(answer_text.finish());
  answer.raw = answer_text.raw();
  return answer;
}

} // namespace ridge::engine
