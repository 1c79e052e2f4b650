// Normalizes messages.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ridge::text {

// `path`: the place, such as "messages[1].role"; the message begins with it.
struct MessageError : Error {
  std::string path;
  MessageError(std::string path, const std::string& problem) : Error(path + ": " + problem), path(std::move(path)) {}
};

// From OpenAI, Ollama or llama.cpp to:
// - `role`: system (also "developer"), user, assistant ("model"), tool ("function" …), or quoted in `template_source`;
// - `content`: text, possibly ""; parts and refusals joined;
// - `reasoning_content`, also from `reasoning`, `thinking`, parts;
// - `tool_calls`, see read_call(), with IDs;
// - results: `tool_call_id`, `name` if known.
// Drops nulls, keeps others. Throws MessageError for other roles and contents.
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& list, const std::string& path = "messages",
                                     std::string_view template_source = {});

// `content`: a string, null or a list of parts. `path` names it in errors. Throws MessageError.
std::string content_text(const nlohmann::ordered_json& content, const std::string& path);
// Other JSON as text.
std::string result_text(const nlohmann::ordered_json& content, const std::string& path);

// Returns {id, type, function: {name, arguments}}. Arguments become an object; invalid text (a cut-off call) stays
// text. Throws MessageError without a name.
nlohmann::ordered_json read_call(const nlohmann::ordered_json& function, const std::string& id,
                                 const std::string& path);
nlohmann::ordered_json read_arguments(const nlohmann::ordered_json& given);

} // namespace ridge::text
