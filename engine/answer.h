// Generates one answer as text: streams whole characters, cuts at stop strings, separates reasoning from the answer,
// and can restrict the answer to a grammar.
#pragma once

#include "core/token_choice.h"
#include "engine/calls/call_constraint.h"
#include "engine/constraint.h"
#include "engine/loaded_model.h"
#include "engine/options.h"
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
  StopReason stop = StopReason::limit;
  // One per token but the one that ended the turn, with keep_choices; `end` counts bytes of `content`.
  std::vector<core::TokenChoice> choices;
};
std::string_view name_of(StopReason stop); // "end_of_turn", …

// Generates answers with one model and session, as a request wants them sampled.
class Answerer {
 public:
  // All arguments must outlive it. Throws Error for sampling options out of range and for grammars that do not parse.
  // One without a seed draws one, for all its answers.
  Answerer(const LoadedModel& model, Session& session, const core::GenerateRequest& request);

  // Evaluates the prompt (what the session does not hold yet) and generates. With `chat_prompt`, the text of the
  // prompt, sections such as <think>…</think> go to Answer::reasoning; without it the text is completed as it is.
  // `calls`: what holds the calls of tools and a chat's schema; null: nothing does.
  Answer answer(std::span<const int32_t> prompt, std::optional<std::string_view> chat_prompt, const TextSink& sink,
                const std::atomic<bool>* cancel, std::shared_ptr<const CallRules> calls = nullptr);

  int64_t seed() const { return params_.seed; }
  // The JSON schema that a chat's answers are to satisfy; null: none.
  nlohmann::ordered_json schema() const { return answer_schema(request_.sampling); }

 private:
  const LoadedModel& model_;
  Session& session_;
  const core::GenerateRequest& request_;
  core::SamplerParams params_;
  std::string grammar_;                                 // GBNF text; empty: none
  std::shared_ptr<const text::TokenTable> token_table_; // made for the first answer that needs it
};

} // namespace ridge::engine
