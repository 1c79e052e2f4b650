// Generates one answer as text; separates reasoning and tool calls.
#pragma once

#include "core/token_choice.h"
#include "engine/chat/chat_request.h"
#include "engine/loading/loaded_model.h"
#include "engine/sequences/session.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::engine {

// Receives text as soon as it is complete. A tool call is a line such as "weather({"city": "Bonn"})".
using TextSink = std::function<void(std::string_view text, bool reasoning)>;

struct Answer {
  std::string content, reasoning;
  std::vector<text::ToolCall> calls;
  std::string raw;    // includes reasoning markers
  int64_t tokens = 0; // includes the end token
  int64_t steps = 0;  // evaluations by a diffusion model
  StopReason stop = StopReason::limit;
  // With keep_choices: one per token but the end token; `end` counts bytes of `content`.
  std::vector<core::TokenChoice> choices;
  std::vector<std::string> schema_misses;
};
std::string_view name_of(StopReason stop);

class Answerer {
 public:
  // Arguments must outlive it. Throws Error for invalid sampling options or grammars. Without a seed, it draws one for
  // all its answers.
  Answerer(const LoadedModel& model, Session& session, const api::GenerateRequest& request);

  Answer answer(Generation generation, const TextSink& sink, const std::atomic<bool>* cancel) {
    return answer(std::move(generation), request_.sampling, sink, cancel);
  }
  // With other sampling options, but those of sampling().params.
  Answer answer(Generation generation, const api::SamplingOptions& sampling, const TextSink& sink,
                const std::atomic<bool>* cancel);

  // Receives all positions of a diffusion answer after each step.
  std::function<void(std::span<const int32_t> answer)> on_canvas;

  int64_t seed() const { return params_.seed; }
  const api::SamplingOptions& sampling() const { return request_.sampling; }

 private:
  Session& session_;
  const api::GenerateRequest& request_;
  const SequenceRequests requests_;
  core::SamplerParams params_;
};

} // namespace ridge::engine
