// A chat's body in the words that OpenAI's API has today.
#pragma once

#include "core/requests.h"
#include "server/fields.h"

namespace ridge::server {

// `functions`, `function_call` and the messages that go with them become `tools`, `tool_choice`, calls and results.
// `enable_thinking`, `thinking` and `reasoning`, as peers have them, become what `chat_template_kwargs` and
// `reasoning_effort` say. Throws ApiError for what is malformed.
Json current_chat_body(const Json& given);

// How many tokens the reasoning may have, and what ends it then: `thinking.budget_tokens` as Anthropic's clients have
// it, `reasoning.max_tokens`, and the names of peers. What the body leaves open stays. Throws ApiError.
void take_reasoning_budget(const Fields& body, core::SamplingOptions& sampling);

// Whether the answers to a body come without their reasoning.
bool hides_reasoning(const Fields& body);

// Whether the answers to a body call `functions`, in the old form.
bool has_functions(const Fields& body);

} // namespace ridge::server
