#include "engine/chat/answer.h"

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

Answerer::Answerer(const LoadedModel& model, Session& session, const api::GenerateRequest& request)
    : session_(session), request_(request), requests_(model), params_(request.sampling.params) {
  core::validate(params_, model.program.vocab);
  if (params_.seed < 0) params_.seed = static_cast<int64_t>(std::random_device{}());
  requests_.sequence({.sampling = request.sampling}); // throws on a bad grammar
}

Answer Answerer::answer(Generation generation, const api::SamplingOptions& sampling, const TextSink& sink,
                        const std::atomic<bool>* cancel) {
  Answer answer;
  generation.sampling = sampling;
  generation.sampling.params = params_;
  generation.keep_choices = request_.keep_choices;
  SequenceRequest request = requests_.sequence(generation);
  AnswerText answer_text = requests_.text_of(generation);
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

  request.on_canvas = [&](std::span<const int32_t> places) {
    ++answer.steps;
    if (on_canvas) on_canvas(places);
  };
  request.on_token = [&](const Token& token) {
    emit(answer_text.push(token.id));
    if (token.choice) {
      answer.choices.push_back(*token.choice);
      answer.choices.back().end = static_cast<uint32_t>(answer.content.size());
    }
    return !answer_text.stopped();
  };
  const int64_t prompt = std::ssize(request.prompt);
  answer.stop = session_.generate(std::move(request), cancel);
  answer.tokens = std::ssize(session_.tokens()) - prompt;
  emit(answer_text.finish());
  answer.raw = answer_text.raw();
  answer.schema_misses = answer_text.schema_misses();
  return answer;
}

} // namespace ridge::engine
