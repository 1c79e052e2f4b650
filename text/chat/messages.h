// A conversation as clients write it, made the one form that the rest works with.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ridge::text {

// What is wrong with a message. `path` is its place, with which the text begins: "messages[1].role".
struct MessageError : Error {
  std::string path;
  MessageError(std::string path, const std::string& problem) : Error(path + ": " + problem), path(std::move(path)) {}
};

// A list of messages in the form of OpenAI's, Ollama's or llama.cpp's chats, as a list of messages that have
// - a `role`: system (also for "developer"), user, assistant (also for "model"), tool (also for "function" and others
//   by that meaning), or one that `template_source` names in quotes;
// - a `content` that is text, "" where there is none: parts of text and refusals are joined;
// - `reasoning_content`, where there is any, also of `reasoning`, `thinking` and parts of that type;
// - `tool_calls`, where there are any, as read_call() gives them, each with an id;
// - for a result: `tool_call_id` and the function's `name`, as far as they can be told.
// Members that are null are left out, and others stay. Throws MessageError for other roles, and for what is no text.
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& list, const std::string& path = "messages",
                                     std::string_view template_source = {});

// The text of a content: a string, null, or a list of parts. `path` stands for it. Throws MessageError.
std::string content_text(const nlohmann::ordered_json& content, const std::string& path);
// The same of what a tool gave: other JSON is its text.
std::string result_text(const nlohmann::ordered_json& content, const std::string& path);

// A call {id, type, function: {name, arguments}} of a function {name, arguments}. The arguments, an object or the text
// of one (also of such a text), become an object. Where they are none, they stay as text: a call that was cut off comes
// back so. Throws MessageError for a function without a name.
nlohmann::ordered_json read_call(const nlohmann::ordered_json& function, const std::string& id,
                                 const std::string& path);
nlohmann::ordered_json read_arguments(const nlohmann::ordered_json& given); // an object, or text

} // namespace ridge::text
