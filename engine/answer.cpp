#include "engine/answer.h"

#include "engine/answer_text.h"

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
    : model_(model), session_(session), request_(request), sampler_(request.sampling.params, model.program.vocab) {
  if (const std::string gbnf = grammar_text(request.sampling); !gbnf.empty())
    constraint_ = std::make_unique<GrammarConstraint>(gbnf, make_token_table(model.need_tokenizer()));
}

Answer Answerer::answer(std::span<const int32_t> prompt, std::optional<std::string_view> chat_prompt,
                        const TextSink& sink, const std::atomic<bool>* cancel) {
  Answer answer;
  if (!session_.evaluate(prompt, cancel)) {
    answer.stop = StopReason::interrupted;
    return answer;
  }
  sampler_.reset();
  for (const int32_t token : prompt) sampler_.accept(token);

  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  AnswerText answer_text(tokenizer, request_.sampling.stop, chat_prompt);
  const auto emit = [&](const AnswerText::Piece& piece) {
    answer.reasoning += piece.reasoning;
    answer.content += piece.content;
    if (!piece.reasoning.empty()) sink(piece.reasoning, true);
    if (!piece.content.empty()) sink(piece.content, false);
  };

  if (constraint_) constraint_->reset();
  Session::Options options;
  options.limit = request_.sampling.max_tokens;
  options.cancel = cancel;
  options.mask = constraint_.get();
  if (!request_.sampling.ignore_eos || constraint_)
    options.is_end = [&](int32_t token) { return tokenizer.is_eog(token); };
  if (constraint_) options.on_accept = [&](int32_t token) { constraint_->accept(token); };
  if (request_.keep_choices)
    options.on_choice = [&](int32_t token, std::span<const float> logits) {
      answer.choices.push_back(core::describe_choice(logits, token));
      answer.choices.back().end = static_cast<uint32_t>(answer.content.size()); // of a token without text
    };
  options.on_token = [&](int32_t token) {
    model_.file.check(); // throws where the file was truncated: the token would be wrong
    emit(answer_text.push(token));
    if (request_.keep_choices) answer.choices.back().end = static_cast<uint32_t>(answer.content.size());
    return !answer_text.stopped();
  };
  answer.stop = session_.generate(sampler_, options);
  answer.tokens = std::ssize(session_.tokens()) - std::ssize(prompt);
  emit(answer_text.finish());
  answer.raw = answer_text.raw();
  return answer;
}

} // namespace ridge::engine
