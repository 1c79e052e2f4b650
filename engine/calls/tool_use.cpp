#include "core/error.h"
#include "core/json/parse.h"
#include "engine/calls/call_constraint.h"
#include "text/calls/call_values.h"
#include "text/grammar/json_schema/json_schema_keywords.h"
#include "text/schema/schema.h"

#include <algorithm>

namespace ridge::engine {

using Json = nlohmann::ordered_json;

void add_tool(ToolUse& use, const Json& function) {
  const auto text = [&](const char* key) {
    return function.contains(key) && function[key].is_string() ? function[key].get<std::string>() : std::string();
  };
  const std::string name = text("name");
  if (!text::is_tool_name(name))
    throw_error("name: expected at most {} letters, digits and characters of \"_-./\"", text::kMaxToolName);
  if (std::ranges::find(use.tools, name, &text::Tool::name) != use.tools.end())
    throw_error("name: another tool has the name {}", name);
  Json parameters = function.contains("parameters") ? function["parameters"] : Json();
  if (parameters.is_null()) parameters = Json::object();
  if (parameters == true) parameters = Json::object();
  if (!parameters.is_object()) throw_error("parameters: expected a JSON schema");
  for (const char* keyword : {"type", "properties"})
    if (parameters.contains(keyword) && parameters[keyword].is_null()) parameters.erase(keyword);
  if (!parameters.contains("type")) parameters["type"] = "object";
  Json schema;
  try {
    schema = text::clean_schema(parameters);
  } catch (const Error& error) {
    throw_error("parameters: invalid schema for {}: {}", name, error.what());
  }
  const Json& type = schema["type"];
  if (type != "object" && !(type.is_array() && std::ranges::find(type, "object") != type.end()))
    throw_error("parameters: expected the schema of an object for {}", name);
  schema["type"] = "object";
  // Unspecified parameters mean that there are none. In other schemas, empty `properties` restrict nothing.
  const auto says = [](const auto& entry) { return entry.key() != "type" && text::is_enforced(entry.key()); };
  if (std::ranges::none_of(schema.items(), says)) schema["properties"] = Json::object();
  if (!parameters.contains("properties")) parameters["properties"] = Json::object(); // templates expect it
  use.definitions.push_back(
      {{"type", "function"},
       {"function", {{"name", name}, {"description", text("description")}, {"parameters", parameters}}}});
  use.tools.push_back({name, std::move(schema)});
}

ToolUse read_tools(const std::string& json_text, const std::string& label) {
  const Json json = core::parse_json(json_text, label);
  const Json list = json.is_object() && json.contains("tools") ? json["tools"] : json;
  if (!list.is_array() || list.empty()) throw_error("{}: expected a JSON list of tools", label);
  ToolUse use{.definitions = Json::array()};
  if (json.is_object()) {
    use.required = json.value("tool_choice", Json("auto")) == "required";
    use.parallel = json.value("parallel_tool_calls", Json(true)) != false;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) throw_error("{}: tool {}: expected an object", label, i);
    try {
      add_tool(use, list[i].contains("function") ? list[i]["function"] : list[i]);
    } catch (const Error& error) {
      throw_error("{}: tool {}: {}", label, i, error.what());
    }
  }
  return use;
}

} // namespace ridge::engine
