// A chat's body in the words that OpenAI's API has today.
#pragma once

#include "server/fields.h"

namespace ridge::server {

// `functions`, `function_call` and the messages that go with them become `tools`, `tool_choice`, calls and results.
// `enable_thinking`, `thinking` and `reasoning`, as peers have them, become what `chat_template_kwargs` and
// `reasoning_effort` say. Throws ApiError for what is malformed.
Json current_chat_body(const Json& given);

// Whether the answers to a body call `functions`, in the old form.
bool has_functions(const Fields& body);

} // namespace ridge::server
