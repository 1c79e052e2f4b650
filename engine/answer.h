// Generates one answer as text: streams whole characters, cuts at stop strings, separates reasoning from the answer,
// and can restrict the answer to a grammar.
#pragma once

#include "core/sampling/token_choice.h"
#include "engine/chat/chat_request.h"
#include "engine/loaded_model.h"
#include "engine/sequences/session.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Receives text as soon as it is complete. `reasoning`: the text is part of the reasoning, not of the answer. A call of
// a tool is a line of text, such as "weather({"city": "Bonn"})".
using TextSink = std::function<void(std::string_view text, bool reasoning)>;

struct Answer {
  std::string content, reasoning;
  std::vector<text::ToolCall> calls; // that are whole
  std::string raw;                   // as the model wrote it, markers of reasoning included
  int64_t tokens = 0;                // generated, the one that ended the turn included
  int64_t steps = 0;                 // evaluations of the whole text, where it was filled in
  StopReason stop = StopReason::limit;
  // One per token but the one that ended the turn, with keep_choices; `end` counts bytes of `content`.
  std::vector<core::TokenChoice> choices;
  std::vector<std::string> schema_misses; // lines, as AnswerText::schema_misses()
};
std::string_view name_of(StopReason stop); // "end_of_turn", …

// Generates answers with one model and session, as a request wants them sampled.
class Answerer {
 public:
  // All arguments must outlive it. Throws Error for sampling options out of range and for grammars that do not parse.
  // One without a seed draws one, for all its answers.
  Answerer(const LoadedModel& model, Session& session, const core::GenerateRequest& request);

  // Evaluates the prompt (what the session does not hold yet) and generates, sampled as the request wants it. In a
  // chat, sections such as <think>…</think> go to Answer::reasoning; without one the text is completed as it is.
  Answer answer(Generation generation, const TextSink& sink, const std::atomic<bool>* cancel);

  // Takes all places of an answer that is filled in, after each step.
  std::function<void(std::span<const int32_t> answer)> on_canvas;

  int64_t seed() const { return params_.seed; }
  const core::SamplingOptions& sampling() const { return request_.sampling; }

 private:
  Session& session_;
  const core::GenerateRequest& request_;
  const SequenceRequests requests_;
  core::SamplerParams params_;
};

} // namespace ridge::engine
