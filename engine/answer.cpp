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
    constraint_ = std::make_unique<GrammarConstraint>(gbnf, token_table_ = make_token_table(model.need_tokenizer()));
}

Answer Answerer::answer(std::span<const int32_t> prompt, std::optional<std::string_view> chat_prompt,
                        const TextSink& sink, const std::atomic<bool>* cancel, std::shared_ptr<const CallRules> calls) {
  Answer answer;
  if (!session_.evaluate(prompt, cancel)) {
    answer.stop = StopReason::interrupted;
    return answer;
  }
  sampler_.reset();
  for (const int32_t token : prompt) sampler_.accept(token);

  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  if (constraint_) constraint_->reset();
  Constraint* constraint = constraint_.get();
  std::unique_ptr<CallConstraint> call_constraint;
  if (calls && (!constraint || !request_.sampling.json_schema.empty())) { // a chat's schema lets it reason first
    if (!token_table_) token_table_ = make_token_table(tokenizer);
    call_constraint = std::make_unique<CallConstraint>(calls, token_table_, tokenizer, *chat_prompt);
    constraint = call_constraint.get();
  }
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

  Session::Options options;
  options.limit = request_.sampling.max_tokens;
  options.cancel = cancel;
  options.mask = constraint;
  if (!request_.sampling.ignore_eos || constraint)
    options.is_end = [&](int32_t token) { return tokenizer.is_eog(token); };
  if (constraint) options.on_accept = [&](int32_t token) { constraint->accept(token); };
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
