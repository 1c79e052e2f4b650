// Tools in requests, and calls of them in messages and answers, in the forms of the APIs.
#pragma once

#include "server/service.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::server {

// A request's `tools`, `tool_choice` and `parallel_tool_calls` in OpenAI's form, where a tool's members are in
// `function`, or beside its `type` as in /v1/responses. Nothing: no tool may be called. Throws ApiError for what is
// malformed and for tools that are no functions.
std::optional<engine::ToolUse> openai_tools(const Fields& body);
// The same in Anthropic's form: `input_schema`, and a `tool_choice` of type auto, any, tool or none.
std::optional<engine::ToolUse> anthropic_tools(const Fields& body);

// A call in OpenAI's form; `index`: within a stream's delta, below 0: none.
Json openai_call(const text::ToolCall& call, int64_t index = -1);

// The calls of an answer, put together from their parts.
class CallList {
 public:
  void add(const std::vector<text::CallParser::Delta>& deltas);
  const std::vector<text::ToolCall>& calls() const { return calls_; }
  // Those that have ended: with the last parts that were added, and all.
  const std::vector<size_t>& ended() const { return ended_; }
  const std::vector<size_t>& all_ended() const { return all_ended_; }

 private:
  std::vector<text::ToolCall> calls_;
  std::vector<size_t> ended_, all_ended_;
};

// The arguments as JSON; an empty object where the call was cut short.
Json arguments_of(const text::ToolCall& call);

} // namespace ridge::server
