#include "server/requests/chat_body.h"

#include "engine/options.h"
#include "server/json/api_error.h"

#include <utility>

namespace ridge::server {
namespace {

void replace_choice(const Fields& fields, Json& body) {
  const Json* choice = fields.find("function_call");
  if (!choice) return;
  if (choice->is_object())
    body["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", Fields(*choice, "function_call").required("name")}}}};
  else if (*choice == "auto" || *choice == "none")
    body["tool_choice"] = *choice;
  else
    throw_invalid("function_call", "function_call: expected auto, none or an object with a name");
}

void replace_functions(const Fields& fields, Json& body) {
  const Json& functions = fields.required("functions");
  if (!functions.is_array()) throw_invalid("functions", "functions: expected a list");
  Json tools = Json::array();
  for (const Json& function : functions) tools.push_back({{"type", "function"}, {"function", function}});
  body["tools"] = std::move(tools);
  body["parallel_tool_calls"] = false;
  replace_choice(fields, body);
}

// A result belongs to the latest call of its function.
void replace_in_messages(Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object()) continue;
    if (message.contains("function_call") && !message["function_call"].is_null() && !message.contains("tool_calls"))
      message["tool_calls"] = Json::array({{{"id", fmt::format("call_{}", i)},
                                            {"type", "function"},
                                            {"function", std::move(message["function_call"])}}});
    message.erase("function_call");
    if (message.contains("role") && message["role"] == "function") message["role"] = "tool";
  }
}

void replace_thinking(const Fields& fields, Json& body) {
  const auto think = [&](bool on) {
    Json variables = Json::object();
    engine::set_thinking(variables, on);
    if (const auto given = fields.object("chat_template_kwargs")) variables.update(given->json());
    body["chat_template_kwargs"] = std::move(variables);
  };
  if (const auto on = fields.flag("enable_thinking")) think(*on);
  if (const auto thinking = fields.object("thinking")) {
    const std::string type = thinking->text("type").value_or("");
    if (type != "enabled" && type != "disabled" && type != "auto" && type != "adaptive")
      throw_invalid("thinking.type", "thinking.type: expected enabled or disabled");
    if (type != "auto" && type != "adaptive") think(type == "enabled");
  }
  if (const auto reasoning = fields.object("reasoning")) {
    if (const auto effort = reasoning->text("effort"); effort && !fields.find("reasoning_effort"))
      body["reasoning_effort"] = *effort;
    if (const auto enabled = reasoning->flag("enabled")) think(*enabled);
    if (reasoning->integer("max_tokens", 0, INT32_MAX) == 0 && !reasoning->find("enabled")) think(false);
  }
}

} // namespace

void take_reasoning_budget(const Fields& body, api::SamplingOptions& sampling) {
  const auto take = [&](const Fields& from, const char* name) {
    if (const auto budget = from.integer(name, -1, INT32_MAX)) sampling.reasoning_budget = *budget;
  };
  for (const char* name : {"thinking_budget", "thinking_token_budget", "thinking_budget_tokens", "reasoning_budget",
                           "reasoning_budget_tokens"})
    take(body, name);
  if (const auto thinking = body.object("thinking"); thinking && thinking->text("type") != "disabled")
    take(*thinking, "budget_tokens");
  if (const auto reasoning = body.object("reasoning")) take(*reasoning, "max_tokens");
  if (const auto message = body.text("reasoning_budget_message")) sampling.reasoning_message = *message;
}

bool hides_reasoning(const Fields& body) {
  const auto reasoning = body.object("reasoning");
  return !body.flag("include_reasoning").value_or(true) || (reasoning && reasoning->flag("exclude").value_or(false));
}

bool has_functions(const Fields& body) { return body.find("functions") && !body.find("tools"); }

Json current_chat_body(const Json& given) {
  Json body = given;
  const Fields fields(given, "");
  if (has_functions(fields)) replace_functions(fields, body);
  if (body.contains("messages") && body["messages"].is_array()) replace_in_messages(body["messages"]);
  replace_thinking(fields, body);
  return body;
}

} // namespace ridge::server
