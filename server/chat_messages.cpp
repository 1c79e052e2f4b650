#include "server/chat_messages.h"

#include "engine/options.h"
#include "server/api_error.h"
#include "server/tools.h"

#include <algorithm>

namespace ridge::server {

Json read_messages(Json messages) {
  if (!messages.is_array() || messages.empty()) throw_invalid("messages", "messages: expected a list of messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    const Fields message(messages[i], path);
    const std::string role = message.text("role").value_or("");
    if (role.empty()) throw_invalid(message.path_of("role"), "{}: expected a string", message.path_of("role"));
    if (role == "developer") messages[i]["role"] = "system";
    Json& content = messages[i]["content"];
    const bool only_calls = content.is_null() && messages[i].contains("tool_calls");
    content = only_calls ? Json("") : Json(content_text(content, message.path_of("content")));
  }
  read_calls(messages);
  return messages;
}

void set_effort(Json& variables, const std::string& effort) {
  variables["reasoning_effort"] = effort;
  if (effort == "none") engine::set_thinking(variables, false);
}

Json schema_of_format(const Fields& format) {
  const std::string type = format.text("type").value_or("");
  const auto named = format.object("json_schema");
  const Fields& holder = named ? *named : format;
  if (type == "json_schema") return holder.required("schema");
  if (type == "json_object") return holder.find("schema") ? *holder.find("schema") : Json::object({{"type", "object"}});
  if (type != "text")
    throw_invalid(format.path_of("type"), "{}: expected text, json_object or json_schema", format.path_of("type"));
  return nullptr;
}

Generation chat_generation(const Service& service, const Fields& body) {
  Json variables = Json::object();
  if (const auto effort = body.text("reasoning_effort")) set_effort(variables, *effort);
  if (const auto further = body.object("chat_template_kwargs")) variables.update(further->json());
  const auto tools = openai_tools(body);
  const auto format = body.object("response_format");
  return service.chat(read_messages(body.required("messages")), tools ? &*tools : nullptr, variables,
                      format ? schema_of_format(*format) : Json());
}

std::string content_text(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw_invalid(path, "{}: expected text", path);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], fmt::format("{}[{}]", path, i));
    if (part.text("type").value_or("") != "text")
      throw_invalid(part.path_of("type"), "{}: this server takes parts of type \"text\" only", part.path_of("type"));
    text += part.text("text").value_or("");
  }
  return text;
}

std::vector<int32_t> token_ids(const Json& json, const std::string& path) {
  const auto is_id = [](const Json& id) {
    return id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() <= INT32_MAX;
  };
  if (!json.is_array() || !std::ranges::all_of(json, is_id))
    throw_invalid(path, "{}: expected a list of token ids", path);
  return json.get<std::vector<int32_t>>();
}

} // namespace ridge::server
