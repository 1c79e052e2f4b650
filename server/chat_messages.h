// Reads the messages of a chat request in the OpenAI form.
#pragma once

#include "server/service.h"

#include <string>
#include <vector>

namespace ridge::server {

// A list of messages, checked: parts of text are joined, and the role "developer" is "system". Throws ApiError for what
// is malformed or no text.
Json read_messages(Json messages);

// The JSON schema that a format of type text, json_object or json_schema asks for; null: none. Chats have it in a
// member `json_schema`, responses as a member. Throws ApiError for another type.
Json schema_of_format(const Fields& format);

// The prompt of a body's `messages` and `tools`, held to its `response_format`, with `chat_template_kwargs` and
// `reasoning_effort` handed to the template.
Generation chat_generation(const Service& service, const Fields& body);

// Hands OpenAI's reasoning_effort to a template: "none" switches reasoning off.
void set_effort(Json& variables, const std::string& effort);

// The text of a content: a string, or a list of parts that are all of type "text". `path` stands for it. Throws
// ApiError for anything else.
std::string content_text(const Json& content, const std::string& path);

// Throws ApiError where `json` is no list of token ids; `path` stands for it.
std::vector<int32_t> token_ids(const Json& json, const std::string& path);

} // namespace ridge::server
