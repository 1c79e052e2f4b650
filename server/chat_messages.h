// Reads OpenAI chat requests.
#pragma once

#include "server/json/api_error.h"
#include "server/models/service.h"
#include "text/chat/messages.h"

#include <string>
#include <vector>

namespace ridge::server {

template <typename Read>
auto said_of(const Read& read) {
  try {
    return read();
  } catch (const text::MessageError& error) {
    throw_invalid(error.path, "{}", error.what());
  }
}

// Returns messages as text::read_messages(). Throws ApiError.
Json read_messages(const Service& service, const Json& messages);

// Reads `continue_final_message` and `add_generation_prompt`.
engine::LastTurn last_turn(const Fields& body);

// A schema for type json_object or json_schema, null for text. Throws ApiError for others.
Json schema_of_format(const Fields& format);

// Applies the answer's format, `chat_template_kwargs` and `reasoning_effort`.
Generation chat_generation(const Service& service, const Fields& body);

// "none" switches reasoning off.
void set_effort(Json& variables, const std::string& effort);

// See text/chat/messages.h. `path` is for errors.
std::string content_text(const Json& content, const std::string& path);
std::string result_text(const Json& content, const std::string& path);

// Throws ApiError.
std::vector<int32_t> token_ids(const Json& json, const std::string& path);

} // namespace ridge::server
