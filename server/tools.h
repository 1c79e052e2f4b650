// Converts tools and calls between API forms.
#pragma once

#include "server/models/service.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::server {

// Reads `tools`, `tool_choice` and `parallel_tool_calls`. A tool's members are in `function`, or beside `type`
// (/v1/responses). Null: no calls are allowed. Throws ApiError for malformed tools and for anything but functions.
std::optional<engine::ToolUse> openai_tools(const Fields& body);
// Reads `input_schema` and a `tool_choice` of type auto, any, tool or none.
std::optional<engine::ToolUse> anthropic_tools(const Fields& body);

// `index` is for a stream's delta; below 0: none.
Json openai_call(const text::ToolCall& call, int64_t index = -1);

class CallList {
 public:
  void add(const std::vector<text::CallParser::Delta>& deltas);
  const std::vector<text::ToolCall>& calls() const { return calls_; }
  // Calls that the last add() finished, and all finished calls.
  const std::vector<size_t>& ended() const { return ended_; }
  const std::vector<size_t>& all_ended() const { return all_ended_; }

 private:
  std::vector<text::ToolCall> calls_;
  std::vector<size_t> ended_, all_ended_;
};

// An empty object for a truncated call.
Json arguments_of(const text::ToolCall& call);

} // namespace ridge::server
