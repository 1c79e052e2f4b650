#include "text/chat/messages.h"

#include "text/calls/call_values.h"
#include "text/calls/tool.h"
#include "text/white_space.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Args>
[[noreturn]] void fail(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  throw MessageError(path, fmt::format(format, std::forward<Args>(args)...));
}

const Json* find(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// Text or number (IDs may be numbers); nullopt: absent.
std::optional<std::string> text_member(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (value && value->is_string()) return value->get<std::string>();
  if (value && value->is_number()) return compact_json(*value);
  return std::nullopt;
}

struct Said {
  std::string text, reasoning;
};

void add_part(Said& said, const Json& part, const std::string& path) {
  if (part.is_string()) {
    said.text += part.get<std::string>();
    return;
  }
  if (!part.is_object() || (!find(part, "type") && !find(part, "text"))) fail(path, "expected text");
  const auto add = [&](std::string& to, const char* member) {
    const Json* inner = find(part, member);
    if (inner) to += content_text(*inner, fmt::format("{}.{}", path, member));
  };
  const std::string type = text_member(part, "type").value_or("text");
  if (type == "text" || type == "input_text" || type == "output_text")
    add(said.text, "text");
  else if (type == "refusal")
    add(said.text, "refusal");
  else if (type == "thinking" || type == "reasoning")
    add(said.reasoning, find(part, "thinking") ? "thinking" : find(part, "reasoning") ? "reasoning" : "text");
  else
    fail(path + ".type", "this server takes only text, not parts of type \"{}\"", type);
}

Said read_content(const Json& content, const std::string& path) {
  Said said;
  if (content.is_null()) return said;
  if (content.is_string()) return {content.get<std::string>(), {}};
  if (content.is_object()) {
    add_part(said, content, path);
  } else if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i) add_part(said, content[i], fmt::format("{}[{}]", path, i));
  } else {
    fail(path, "expected text");
  }
  return said;
}

std::string read_role(const Json& message, const std::string& path, std::string_view template_source) {
  constexpr std::pair<std::string_view, const char*> kRoles[] = {
      {"system", "system"},    {"developer", "system"},   {"user", "user"},        {"assistant", "assistant"},
      {"model", "assistant"},  {"tool", "tool"},          {"function", "tool"},    {"ipython", "tool"},
      {"observation", "tool"}, {"tool_response", "tool"}, {"tool_result", "tool"},
  };
  const auto role = text_member(message, "role");
  if (!role) fail(path, "expected system, developer, user, assistant or tool");
  for (const auto& [name, meaning] : kRoles)
    if (*role == name) return meaning;
  for (const char quote : {'\'', '"'})
    if (is_tool_name(*role) && template_source.find(quote + *role + quote) != std::string_view::npos) return *role;
  fail(path, "unknown role \"{}\"; expected system, developer, user, assistant or tool", *role);
}

void read_reasoning(Json& message, std::string reasoning) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const auto at = message.find(name);
    if (at == message.end()) continue;
    if (reasoning.empty() && at->is_string()) reasoning = at->get<std::string>();
    message.erase(at);
  }
  if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
}

// Matches results with calls; adds missing IDs and names.
class Calls {
 public:
  void read(Json& message, const std::string& path) {
    Json given = take(message, "tool_calls"), calls = Json::array();
    const Json old = take(message, "function_call");
    if (given.is_null()) given = Json::array();
    if (!given.is_array()) fail(path + ".tool_calls", "expected a list");
    if (given.empty() && old.is_object()) given.push_back({{"function", old}});
    for (size_t i = 0; i < given.size(); ++i) {
      const std::string place = fmt::format("{}.tool_calls[{}]", path, i);
      if (!given[i].is_object()) fail(place, "expected an object");
      const std::string id = text_member(given[i], "id").value_or(make_call_id(0, count_++, 0));
      calls.push_back(read_any(given[i], id, place));
      open_.emplace_back(id, calls.back()["function"]["name"]);
    }
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
  }

  void join_result(Json& message) {
    std::optional<std::string> name = text_member(message, "name");
    if (!name) name = text_member(message, "tool_name");
    const auto id = text_member(message, "tool_call_id");
    const auto call = std::ranges::find_if(
        open_, [&](const auto& one) { return id ? one.first == *id : !name || one.second == *name; });
    message["tool_call_id"] = call != open_.end() ? call->first : id.value_or("");
    message["name"] = call != open_.end() ? call->second : name.value_or("");
    if (call != open_.end()) open_.erase(call);
  }

 private:
  static Json take(Json& message, const char* name) {
    const auto at = message.find(name);
    if (at == message.end()) return nullptr;
    Json value = std::move(*at);
    message.erase(at);
    return value;
  }
  static Json read_any(const Json& call, const std::string& id, const std::string& path) {
    if (const Json* custom = find(call, "custom"); custom && custom->is_object()) {
      const Json arguments = {{"input", text_member(*custom, "input").value_or("")}};
      return read_call({{"name", text_member(*custom, "name").value_or("")}, {"arguments", arguments}}, id,
                       path + ".custom");
    }
    const Json* function = find(call, "function");
    if (!function || !function->is_object()) fail(path + ".function", "expected a function's name and arguments");
    return read_call(*function, id, path + ".function");
  }

  std::vector<std::pair<std::string, std::string>> open_;
  size_t count_ = 0;
};

} // namespace

Json read_messages(const Json& list, const std::string& path, std::string_view template_source) {
  if (!list.is_array() || list.empty()) fail(path, "expected a list of messages");
  Json messages = Json::array();
  Calls calls;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    if (!list[i].is_object()) fail(place, "expected an object");
    const std::string role = read_role(list[i], place + ".role", template_source);
    Json message = {{"role", role}, {"content", ""}};
    for (const auto& [name, value] : list[i].items())
      if (!value.is_null() && name != "role" && name != "content") message[name] = value;
    const Json* content = find(list[i], "content");
    if (role == "tool") {
      message["content"] = content ? result_text(*content, place + ".content") : "";
      calls.join_result(message);
    } else {
      Said said = read_content(content ? *content : Json(), place + ".content");
      message["content"] = std::move(said.text);
      if (role == "assistant") {
        if (const auto refusal = text_member(message, "refusal"); refusal && message["content"] == "")
          message["content"] = *refusal;
        read_reasoning(message, std::move(said.reasoning));
        calls.read(message, place);
      }
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

std::string content_text(const Json& content, const std::string& path) { return read_content(content, path).text; }

std::string result_text(const Json& content, const std::string& path) {
  const bool is_part = content.is_object() && content.contains("type");
  const bool is_list = content.is_array() && std::ranges::all_of(content, [](const Json& part) {
                         return part.is_string() || (part.is_object() && part.contains("type"));
                       });
  if (content.is_null() || content.is_string() || is_part || is_list) return content_text(content, path);
  return compact_json(content);
}

Json read_arguments(const Json& given) {
  constexpr int kTimesEncoded = 3;
  if (given.is_object()) return given;
  if (given.is_null()) return Json::object();
  Json value = given;
  for (int i = 0; i < kTimesEncoded && value.is_string(); ++i) {
    const auto& text = value.get_ref<const std::string&>();
    value = trim(text).empty() ? Json::object() : parse_json(text);
  }
  if (value.is_null()) return Json::object();
  if (value.is_object()) return value;
  return given.is_string() ? given : Json(compact_json(given));
}

Json read_call(const Json& function, const std::string& id, const std::string& path) {
  const std::string name = text_member(function, "name").value_or("");
  if (name.empty()) fail(path + ".name", "expected the name of a function");
  const Json* given = find(function, "arguments");
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", read_arguments(given ? *given : Json())}}}};
}

} // namespace ridge::text
