#include "server/tools.h"

#include "core/error.h"
#include "server/json/api_error.h"
#include "text/calls/call_values.h"

#include <algorithm>

namespace ridge::server {
namespace {

constexpr size_t kMaxTools = 512;

struct Choice {
  bool none = false, required = false;
  std::optional<std::vector<std::string>> names; // null: all tools
};

const Json& list_of(const Fields& body, const char* name) {
  static const Json kNone = Json::array();
  const Json* list = body.find(name);
  if (!list) return kNone;
  if (!list->is_array()) throw_invalid(body.path_of(name), "{}: expected a list", body.path_of(name));
  if (list->size() > kMaxTools) throw_invalid(name, "{}: expected at most {} of them", name, kMaxTools);
  return *list;
}

void add_tool(engine::ToolUse& use, const Fields& tool, const char* schema) {
  Json function = {{"name", tool.text("name").value_or("")}, {"description", tool.text("description").value_or("")}};
  if (const Json* given = tool.find(schema)) function["parameters"] = *given;
  try {
    engine::add_tool(use, function);
  } catch (const core::Error& error) {
    const std::string complaint = error.what();
    const bool of_schema = complaint.starts_with("parameters:");
    const char* field = of_schema ? schema : "name";
    throw_invalid(tool.path_of(field), "{}{}", tool.path_of(field), complaint.substr(complaint.find(':')));
  }
}

std::optional<engine::ToolUse> with_choice(engine::ToolUse use, const Choice& choice, const std::string& path) {
  if (use.tools.empty() && choice.required) throw_invalid(path, "{}: requires tools", path);
  if (choice.none || use.tools.empty()) return std::nullopt;
  use.required = choice.required;
  if (!choice.names) return use;
  const auto is_allowed = [&](const std::string& name) { return std::ranges::count(*choice.names, name) > 0; };
  for (const std::string& name : *choice.names)
    if (std::ranges::find(use.tools, name, &text::Tool::name) == use.tools.end())
      throw_invalid(path, "{}: unknown tool {}", path, name);
  std::erase_if(use.tools, [&](const text::Tool& tool) { return !is_allowed(tool.name); });
  return use;
}

// It is in `function`, or beside `type`.
std::string function_name(const Fields& tool) {
  const auto function = tool.object("function");
  const auto name = function ? function->text("name") : tool.text("name");
  const std::string path = tool.path_of(function ? "function.name" : "name");
  if (!name) throw_invalid(path, "{} is missing", path);
  return *name;
}

Choice openai_choice(const Fields& body) {
  const Json* given = body.find("tool_choice");
  if (!given || *given == "auto") return {};
  if (*given == "none") return {.none = true};
  if (*given == "required") return {.required = true};
  if (!given->is_object()) throw_invalid("tool_choice", "tool_choice: expected auto, none, required or a function");
  const Fields choice(*given, "tool_choice");
  const std::string type = choice.text("type").value_or("");
  if (type == "function") return {.required = true, .names = std::vector{function_name(choice)}};
  if (type != "allowed_tools")
    throw_invalid("tool_choice.type", "tool_choice.type: expected function or allowed_tools");
  const auto inner = choice.object("allowed_tools"); // not in /v1/responses
  const Fields& allowed = inner ? *inner : choice;
  const std::string mode = allowed.text("mode").value_or("auto");
  if (mode != "auto" && mode != "required")
    throw_invalid(allowed.path_of("mode"), "{}: expected auto or required", allowed.path_of("mode"));
  const Json& tools = list_of(allowed, "tools");
  if (tools.empty()) throw_invalid(allowed.path_of("tools"), "{}: expected at least one", allowed.path_of("tools"));
  Choice several = {.required = mode == "required", .names = std::vector<std::string>()};
  for (size_t i = 0; i < tools.size(); ++i)
    several.names->push_back(function_name(Fields(tools[i], fmt::format("{}[{}]", allowed.path_of("tools"), i))));
  return several;
}

Choice anthropic_choice(const Fields& body, bool& parallel) {
  const auto choice = body.object("tool_choice");
  if (!choice) return {};
  parallel = !choice->flag("disable_parallel_tool_use").value_or(false);
  const std::string type = choice->text("type").value_or("");
  if (type == "auto") return {};
  if (type == "none") return {.none = true};
  if (type == "any") return {.required = true};
  if (type != "tool") throw_invalid("tool_choice.type", "tool_choice.type: expected auto, any, tool or none");
  const auto name = choice->text("name");
  if (!name) throw_invalid("tool_choice.name", "tool_choice.name is missing");
  return {.required = true, .names = std::vector{*name}};
}

} // namespace

std::optional<engine::ToolUse> openai_tools(const Fields& body) {
  engine::ToolUse use{.definitions = Json::array()};
  const Json& list = list_of(body, "tools");
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields tool(list[i], fmt::format("tools[{}]", i));
    if (tool.text("type").value_or("function") != "function")
      throw_invalid(tool.path_of("type"), "{}: this server supports only tools of type \"function\"",
                    tool.path_of("type"));
    const auto function = tool.object("function");
    add_tool(use, function ? *function : tool, "parameters");
  }
  use.parallel = body.flag("parallel_tool_calls").value_or(true);
  return with_choice(std::move(use), openai_choice(body), "tool_choice");
}

std::optional<engine::ToolUse> anthropic_tools(const Fields& body) {
  engine::ToolUse use{.definitions = Json::array()};
  const Json& list = list_of(body, "tools");
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields tool(list[i], fmt::format("tools[{}]", i));
    if (tool.text("type").value_or("custom") != "custom")
      throw_invalid(tool.path_of("type"), "{}: this server has no built-in tools", tool.path_of("type"));
    add_tool(use, tool, "input_schema");
  }
  const Choice choice = anthropic_choice(body, use.parallel);
  return with_choice(std::move(use), choice, "tool_choice");
}

Json openai_call(const text::ToolCall& call, int64_t index) {
  Json json = Json::object();
  if (index >= 0) json["index"] = index;
  json.update(
      {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return json;
}

void CallList::add(const std::vector<text::CallParser::Delta>& deltas) {
  ended_.clear();
  for (const text::CallParser::Delta& delta : deltas) {
    if (delta.begins) calls_.push_back({delta.id, delta.name, {}});
    calls_[delta.index].arguments += delta.arguments;
    if (!delta.ends) continue;
    ended_.push_back(delta.index);
    all_ended_.push_back(delta.index);
  }
}

Json arguments_of(const text::ToolCall& call) {
  Json arguments = text::parse_json(call.arguments);
  return arguments.is_object() ? arguments : Json::object();
}

} // namespace ridge::server
