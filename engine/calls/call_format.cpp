#include "engine/calls/call_format.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "core/random.h"
#include "engine/calls/call_constraint.h"
#include "text/calls/call_values.h"
#include "text/calls/call_writer.h"
#include "text/calls/tool.h"
#include "text/chat/messages.h"
#include "text/grammar/json_schema/json_schema_keywords.h"
#include "text/schema/schema.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace ridge::engine {
namespace {

using Json = nlohmann::ordered_json;

// Words that no template contains.
constexpr const char *kProbeName = "zq_probe", *kProbeKey = "zq_key", *kProbeValue = "zqvalue",
                     *kProbeResult = "zqresult";

std::optional<std::string> render_sample(const text::ChatTemplate& chat_template, const Json& messages,
                                         const Json& tools) {
  text::ChatOptions options;
  options.tools = tools;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  try {
    return chat_template.render(messages, options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool says(const std::optional<std::string>& text, const std::string& word) {
  return text && text->find(word) != std::string::npos;
}

Json sample_tools() {
  const Json value = {{"type", "string"}, {"description", "the value"}};
  const Json parameters = {{"type", "object"}, {"properties", {{kProbeKey, value}}}, {"required", {kProbeKey}}};
  return Json::array({{{"type", "function"},
                       {"function", {{"name", kProbeName}, {"description", "a probe"}, {"parameters", parameters}}}}});
}

const char* const kProbeQuestion = R"([{"role": "user", "content": "zquestion"}])";

std::string fit_id(const std::string& id, int length) {
  if (length == 0 || (static_cast<int>(id.size()) == length && text::is_tool_name(id))) return id;
  uint64_t hash = 0;
  for (const char c : id) hash = core::mix_bits(hash + static_cast<unsigned char>(c));
  return text::make_call_id(hash, 0, length);
}

void add_to_system(Json& messages, const std::string& text) {
  const bool has_system = !messages.empty() && messages[0]["role"] == "system" && messages[0]["content"].is_string();
  if (has_system)
    messages[0]["content"] = messages[0]["content"].get<std::string>() + "\n\n" + text;
  else
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

std::string tools_as_text(const Json& tools) {
  std::string list;
  for (const Json& tool : tools) list += text::compact_json(tool) + "\n";
  return fmt::format(
      "You may call functions to help with the user's request. Their signatures are:\n<tools>\n{}</tools>\n"
      "To call one, write a JSON object with its name and arguments between these tags:\n<tool_call>\n"
      "{{\"name\": <name>, \"arguments\": <arguments as JSON>}}\n</tool_call>",
      list);
}

std::vector<text::ToolCall> calls_of(const Json& message) {
  std::vector<text::ToolCall> calls;
  for (const Json& call : message["tool_calls"]) {
    const Json& arguments = call["function"]["arguments"];
    calls.push_back({call.value("id", ""), call["function"].at("name"),
                     arguments.is_string() ? arguments.get<std::string>() : text::compact_json(arguments)});
  }
  return calls;
}

Json sample_call(const CallFormat& format, size_t number) {
  const std::string digit = std::to_string(number);
  const Json arguments = {{kProbeKey, kProbeValue + digit}};
  const Json function = {{"name", kProbeName},
                         {"arguments", format.arguments_as_text ? Json(text::compact_json(arguments)) : arguments}};
  return {{"id", "abcdefgh" + digit}, {"type", "function"}, {"function", function}};
}

Json sample_result(size_t number) {
  const std::string digit = std::to_string(number);
  return {
      {"role", "tool"}, {"tool_call_id", "abcdefgh" + digit}, {"name", kProbeName}, {"content", kProbeResult + digit}};
}

void find_call_orders(CallFormat& format, const text::ChatTemplate& chat_template, const Json& tools) {
  const Json user = core::parse_json(kProbeQuestion), said = {{"role", "assistant"}, {"content", "zqsaid"}};
  const Json nothing = format.null_content ? Json() : Json("");
  const Json one = {{"role", "assistant"}, {"content", nothing}, {"tool_calls", {sample_call(format, 1)}}};
  const auto writes = [&](const std::vector<Json>& turns, const std::vector<std::string>& words) {
    Json messages = user;
    for (const Json& turn : turns) messages.push_back(turn);
    const auto text = render_sample(chat_template, messages, format.takes_tools ? tools : Json());
    return std::ranges::all_of(words, [&](const std::string& word) { return says(text, word); });
  };
  Json two = one, talking = one;
  two["tool_calls"].push_back(sample_call(format, 2));
  talking["content"] = "zqsaid";
  const std::string value = kProbeValue, result = kProbeResult;
  format.several_calls = writes({two, sample_result(1), sample_result(2)}, {value + "1", value + "2", result + "1"});
  format.text_with_calls = writes({talking, sample_result(1)}, {"zqsaid", value + "1"});
  format.text_before_calls =
      writes({said, one, sample_result(1), said, user[0], said}, {"zqsaid", value + "1", result + "1"});
  format.question_after_results =
      writes({one, sample_result(1), {{"role", "user"}, {"content", "zqmore"}}}, {"zqmore"});
}

Json with_single_calls(Json messages) {
  Json single = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const Json calls = message.contains("tool_calls") ? message["tool_calls"] : Json::array();
    if (calls.size() < 2) {
      single.push_back(std::move(message));
      continue;
    }
    std::vector<Json> results;
    for (; i + 1 < messages.size() && messages[i + 1]["role"] == "tool"; ++i)
      results.push_back(std::move(messages[i + 1]));
    for (const Json& call : calls) {
      message["tool_calls"] = Json::array({call});
      single.push_back(message);
      message = {{"role", "assistant"}, {"content", message["content"].is_null() ? Json() : Json("")}};
      const auto result = std::ranges::find_if(
          results, [&](const Json& one) { return one.value("tool_call_id", Json()) == call.value("id", Json()); });
      if (result == results.end()) continue;
      single.push_back(std::move(*result));
      results.erase(result);
    }
    for (Json& result : results) single.push_back(std::move(result));
  }
  return single;
}

Json with_call_orders(const CallFormat& format, Json messages) {
  if (!format.takes_calls) return messages;
  if (!format.several_calls) messages = with_single_calls(std::move(messages));
  Json apart = Json::array();
  for (Json& message : messages) {
    const bool talks = message.contains("tool_calls") && message["content"].is_string() && message["content"] != "";
    if (talks && !format.text_with_calls && format.text_before_calls) {
      apart.push_back({{"role", "assistant"}, {"content", message["content"]}});
      message["content"] = format.null_content ? Json() : Json("");
    }
    const bool after_result = !apart.empty() && apart.back()["role"] == "tool";
    if (after_result && message["role"] == "user" && !format.question_after_results)
      apart.push_back({{"role", "assistant"}, {"content", ""}});
    apart.push_back(std::move(message));
  }
  return apart;
}

} // namespace

CallFormat find_call_format(const text::ChatTemplate& chat_template) {
  CallFormat format;
  const Json tools = sample_tools();
  const Json user = core::parse_json(kProbeQuestion);
  format.syntax = text::find_call_syntax(chat_template.source());
  format.takes_tools = format.syntax && says(render_sample(chat_template, user, tools), kProbeName);
  if (!format.takes_tools) format.syntax = &text::generic_call_syntax();
  for (const bool as_text : {false, true})
    for (const bool null_content : {false, true}) {
      if (format.takes_calls) break;
      const Json arguments = {{kProbeKey, kProbeValue}};
      const Json function = {{"name", kProbeName},
                             {"arguments", as_text ? Json(text::compact_json(arguments)) : arguments}};
      const Json call = {{"id", "abcdefgh1"}, {"type", "function"}, {"function", function}};
      Json messages = user;
      messages.push_back(
          {{"role", "assistant"}, {"content", null_content ? Json() : Json("")}, {"tool_calls", {call}}});
      // Some templates write text only after results.
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", "abcdefgh1"}, {"name", kProbeName}, {"content", kProbeResult}});
      const auto text = render_sample(chat_template, messages, format.takes_tools ? tools : Json());
      const size_t question = text ? text->find("zquestion") : std::string::npos;
      format.takes_results |= says(text, kProbeResult);
      // The tool list before the question may contain the same name. Models do not write JSON text within JSON or
      // quotes.
      if (!text || question == std::string::npos || text->find(kProbeName, question) == std::string::npos) continue;
      if (text->find(kProbeValue, question) == std::string::npos || says(text, "\\\"zq_key")) continue;
      format.takes_calls = true;
      format.arguments_as_text = as_text;
      format.null_content = null_content;
    }
  if (format.takes_calls) find_call_orders(format, chat_template, tools);
  return format;
}

CallMessages fit_messages(const CallFormat& format, Json messages, Json tools) try {
  for (Json& message : messages) {
    const bool has_calls = message.contains("tool_calls") && !message["tool_calls"].empty();
    if (has_calls)
      for (Json& call : message["tool_calls"])
        if (Json& arguments = call.at("function").at("arguments"); arguments.is_string())
          arguments = text::read_arguments(arguments);
    if (message["role"] == "tool") {
      if (message.contains("tool_call_id"))
        message["tool_call_id"] = fit_id(message["tool_call_id"], format.syntax->id_length);
      if (!format.takes_results)
        message = {{"role", "user"},
                   {"content", "<tool_response>\n" + message.value("content", "") + "\n</tool_response>"}};
    }
    if (!has_calls) continue;
    const std::string said =
        message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "";
    if (!format.takes_calls) {
      message["content"] = said + (said.empty() ? "" : "\n") + text::write_calls(*format.syntax, calls_of(message));
      message.erase("tool_calls");
      continue;
    }
    message["content"] = said.empty() && format.null_content ? Json() : Json(said);
    for (Json& call : message["tool_calls"]) {
      if (call.contains("id")) call["id"] = fit_id(call["id"], format.syntax->id_length);
      Json& arguments = call["function"]["arguments"];
      if (format.arguments_as_text && !arguments.is_string()) arguments = text::compact_json(arguments);
    }
  }
  if (!tools.is_null() && !format.takes_tools) {
    add_to_system(messages, tools_as_text(tools));
    tools = nullptr;
  }
  return {with_call_orders(format, std::move(messages)), std::move(tools)};
} catch (const Json::exception&) {
  throw_error(
      "a message's calls or results are malformed: expected a list of calls with a function's name and arguments");
}

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
