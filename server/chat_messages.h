// Reads the messages of a chat request in the OpenAI form.
#pragma once

#include "server/api_error.h"
#include "server/service.h"
#include "text/chat/messages.h"

#include <string>
#include <vector>

namespace ridge::server {

// What `read` gives, with what is wrong with a message as ApiError.
template <typename Read>
auto said_of(const Read& read) {
  try {
    return read();
  } catch (const text::MessageError& error) {
    throw_invalid(error.path, "{}", error.what());
  }
}

// A list of messages in the form of text::read_messages(). Throws ApiError.
Json read_messages(const Service& service, const Json& messages);

// What `continue_final_message` and `add_generation_prompt` say.
engine::LastTurn last_turn(const Fields& body);

// The JSON schema that a format of type text, json_object or json_schema asks for; null: none. Chats have it in a
// member `json_schema`, responses as a member. Throws ApiError for another type.
Json schema_of_format(const Fields& format);

// The prompt of a body's `messages` and `tools`, in today's words or older ones, held to the form that it asks for,
// with `chat_template_kwargs` and `reasoning_effort` handed to the template.
Generation chat_generation(const Service& service, const Fields& body);

// Hands OpenAI's reasoning_effort to a template: "none" switches reasoning off.
void set_effort(Json& variables, const std::string& effort);

// The text of a content, and of what a tool gave, as text/chat/messages.h has them. `path` stands for it. Throw
// ApiError.
std::string content_text(const Json& content, const std::string& path);
std::string result_text(const Json& content, const std::string& path);

// Throws ApiError where `json` is no list of token ids; `path` stands for it.
std::vector<int32_t> token_ids(const Json& json, const std::string& path);

} // namespace ridge::server
