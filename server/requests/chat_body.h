// Converts chat bodies to OpenAI's current form.
#pragma once

#include "api/requests.h"
#include "server/json/fields.h"

namespace ridge::server {

// Converts `functions`, `function_call`, `enable_thinking`, `thinking` and `reasoning` to `tools`, `tool_choice`,
// `chat_template_kwargs` and `reasoning_effort`. Throws ApiError.
Json current_chat_body(const Json& given);

// Reads `thinking.budget_tokens` (Anthropic), `reasoning.max_tokens`, and others. Absent values stay. Throws ApiError.
void take_reasoning_budget(const Fields& body, api::SamplingOptions& sampling);

bool hides_reasoning(const Fields& body);

bool has_functions(const Fields& body);

} // namespace ridge::server
