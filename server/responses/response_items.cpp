#include "server/responses/response_items.h"

#include "engine/chat/compaction.h"
#include "server/answers.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/reply.h"
#include "server/models/response_store.h"
#include "server/responses/compaction.h"
#include "server/tools.h"

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace ridge::server {
namespace {

Json message_of(const Fields& item) {
  std::string role = item.text("role").value_or("");
  if (role == "developer") role = "system";
  if (role != "user" && role != "assistant" && role != "system")
    throw_invalid(item.path_of("role"), "{}: unknown role \"{}\"; expected user, assistant, system or developer",
                  item.path_of("role"), role);
  const Json* content = item.find("content");
  return {{"role", role}, {"content", content ? content_text(*content, item.path_of("content")) : ""}};
}

Json message_of_compaction(const Fields& item) {
  const std::string path = item.path_of("encrypted_content");
  const auto summary = summary_of(item.text("encrypted_content").value_or(""));
  if (!summary)
    throw_invalid(path,
                  "{}: not a compaction of this server; compact the conversation with its /v1/responses/compact, or "
                  "leave the item out",
                  path);
  return {{"role", "user"}, {"content", engine::compacted_message(*summary)}};
}

class Calls {
 public:
  explicit Calls(const Json& messages) {
    for (const Json& message : messages)
      if (message.contains("tool_calls"))
        for (const Json& call : message["tool_calls"]) names_[call["id"]] = call["function"]["name"];
  }

  // Calls belong to the preceding answer.
  void add(Json& messages, const Fields& item, const Fields& function) {
    const auto id = item.text("call_id");
    if (!id) throw_invalid(item.path_of("call_id"), "{} is missing", item.path_of("call_id"));
    if (messages.empty() || messages.back()["role"] != "assistant")
      messages.push_back({{"role", "assistant"}, {"content", ""}});
    Json call = said_of([&] { return text::read_call(function.json(), *id, function.path()); });
    names_[*id] = call["function"]["name"];
    messages.back()["tool_calls"].push_back(std::move(call));
  }

  Json result(const Fields& item) const {
    const std::string id = item.text("call_id").value_or(item.text("id").value_or(""));
    const auto call = names_.find(id);
    if (call == names_.end())
      throw_invalid(item.path_of("call_id"), "{}: no earlier function call has this id", item.path_of("call_id"));
    const Json* output = item.find("output");
    return {{"role", "tool"},
            {"tool_call_id", id},
            {"name", call->second},
            {"content", output ? result_text(*output, item.path_of("output")) : ""}};
  }

 private:
  std::unordered_map<std::string, std::string> names_;
};

// Converts other tools' calls to function calls; null for other items.
std::optional<Json> function_of(const Fields& item, const std::string& type) {
  const auto of = [&](const std::string& name, const char* arguments) {
    const Json* given = item.find(arguments);
    return Json{{"name", name}, {"arguments", given && given->is_object() ? *given : Json::object()}};
  };
  if (type == "custom_tool_call")
    return Json{{"name", item.text("name").value_or("")}, {"arguments", {{"input", item.text("input").value_or("")}}}};
  if (type == "local_shell_call") return of("local_shell", "action");
  if (type == "shell_call") return of("shell", "action");
  if (type == "apply_patch_call") return of("apply_patch", "operation");
  if (type == "computer_call") return of("computer", "action");
  return std::nullopt;
}

// Tools run by other servers: their results are missing, or repeated in later text.
bool is_left_out(const std::string& type) {
  static const std::set<std::string> kTypes = {
      "reasoning",         "web_search_call", "file_search_call",     "code_interpreter_call", "image_generation_call",
      "mcp_list_tools",    "mcp_call",        "mcp_approval_request", "mcp_approval_response", "tool_search_call",
      "tool_search_output"};
  return kTypes.contains(type);
}

// Each item enters a conversation only once.
struct References {
  const ResponseStore& store;
  std::set<std::string> taken;

  std::optional<Json> take(const std::string& id) {
    return taken.insert(id).second ? store.find_item(id) : std::nullopt;
  }
};

// null inside a referenced item.
void add_item(Json& messages, Calls& calls, const Fields& item, References* references) {
  const std::string type =
      item.text("type").value_or(item.find("role") || !item.find("id") ? "message" : "item_reference");
  if (type == "message")
    messages.push_back(message_of(item));
  else if (type == "function_call")
    calls.add(messages, item, item);
  else if (const auto function = function_of(item, type))
    calls.add(messages, item, Fields(*function, item.path_of("name")));
  else if (type == "item_reference") {
    const auto known = references ? references->take(item.text("id").value_or("")) : std::nullopt;
    if (known) add_item(messages, calls, Fields(*known, item.path_of("id")), nullptr);
  } else if (type == "compaction")
    messages.push_back(message_of_compaction(item));
  else if (type.ends_with("_call_output"))
    messages.push_back(calls.result(item));
  else if (!is_left_out(type))
    throw_invalid(item.path_of("type"), "{}: items of type \"{}\" are not supported", item.path_of("type"), type);
}

} // namespace

void add_input(Json& messages, const Json& input, const ResponseStore& store) {
  if (input.is_string()) return messages.push_back({{"role", "user"}, {"content", input}});
  if (!input.is_array() || input.empty()) throw_invalid("input", "input: expected a string or a list of items");
  Calls calls(messages);
  References references{store, {}};
  for (size_t i = 0; i < input.size(); ++i)
    add_item(messages, calls, Fields(input[i], fmt::format("input[{}]", i)), &references);
}

Json listed_input(const Json& input) {
  Json list = Json::array();
  if (input.is_string()) {
    const Json part = {{"type", "input_text"}, {"text", input}};
    list.push_back({{"type", "message"}, {"role", "user"}, {"content", Json::array({part})}});
  } else {
    list = input;
  }
  for (Json& item : list) {
    if (!item.contains("type")) item["type"] = "message";
    if (item["type"] == "message" && item.contains("content") && item["content"].is_string()) {
      const char* type = item["role"] == "assistant" ? "output_text" : "input_text";
      Json part = {{"type", type}, {"text", item["content"]}};
      item["content"] = Json::array({std::move(part)});
    }
    if (!item.contains("id")) item["id"] = new_id(item["type"] == "message" ? "msg_" : "item_");
    if (!item.contains("status")) item["status"] = "completed";
  }
  return list;
}

void OutputItems::add(Kind kind, const std::string& text, Json logprobs) {
  if (text.empty() && logprobs.empty()) return;
  if (open_ && kind != kind_) close(true);
  if (!open_) open(kind);
  text_ += text;
  Json members = {{"delta", text}};
  if (kind == Kind::message) {
    members["logprobs"] = logprobs;
    for (Json& one : logprobs) logprobs_.push_back(std::move(one));
  }
  emit_part(kind == Kind::message ? "response.output_text.delta" : "response.reasoning_text.delta", std::move(members));
}

void OutputItems::add_call(const text::CallParser::Delta& delta) {
  if (delta.begins) {
    if (open_) close(true);
    call_id_ = delta.id;
    function_ = delta.name;
    open(Kind::call);
  }
  text_ += delta.arguments;
  if (!delta.arguments.empty()) emit_of_item("response.function_call_arguments.delta", {{"delta", delta.arguments}});
  if (delta.ends) close(true);
}

void OutputItems::finish(bool complete) {
  if (open_) close(complete);
  const bool answered = !items_.empty() && items_.back()["type"] != "reasoning";
  if (complete && !answered) {
    open(Kind::message);
    close(true);
  }
}

Json OutputItems::message() const {
  Json message = {{"role", "assistant"}, {"content", ""}};
  std::string text;
  for (const Json& item : items_) {
    if (item["type"] == "message") text += item["content"][0]["text"];
    if (item["type"] != "function_call" || item["status"] != "completed") continue;
    const Json arguments = arguments_of({item["call_id"], item["name"], item["arguments"]});
    message["tool_calls"].push_back({{"id", item["call_id"]},
                                     {"type", "function"},
                                     {"function", {{"name", item["name"]}, {"arguments", arguments}}}});
  }
  message["content"] = std::move(text);
  return message;
}

void OutputItems::open(Kind kind) {
  open_ = true;
  kind_ = kind;
  id_ = new_id(kind == Kind::message ? "msg_" : kind == Kind::call ? "fc_" : "rs_");
  text_.clear();
  logprobs_ = Json::array();
  emit_("response.output_item.added", {{"output_index", items_.size()}, {"item", item("in_progress", false)}});
  if (kind != Kind::call) emit_part("response.content_part.added", {{"part", part("")}});
}

void OutputItems::close(bool complete) {
  if (kind_ == Kind::call) {
    emit_of_item("response.function_call_arguments.done", {{"name", function_}, {"arguments", text_}});
  } else {
    Json members = {{"text", text_}};
    if (kind_ == Kind::message) members["logprobs"] = logprobs_;
    emit_part(kind_ == Kind::message ? "response.output_text.done" : "response.reasoning_text.done",
              std::move(members));
    emit_part("response.content_part.done", {{"part", part(text_)}});
  }
  Json whole = item(complete ? "completed" : "incomplete", true);
  emit_("response.output_item.done", {{"output_index", items_.size()}, {"item", whole}});
  items_.push_back(std::move(whole));
  open_ = false;
}

void OutputItems::emit_of_item(const char* type, Json members) const {
  Json all = {{"item_id", id_}, {"output_index", items_.size()}};
  all.update(members);
  emit_(type, std::move(all));
}

void OutputItems::emit_part(const char* type, Json members) const {
  members["content_index"] = 0;
  emit_of_item(type, std::move(members));
}

Json OutputItems::item(const char* status, bool with_text) const {
  if (kind_ == Kind::call)
    return {{"id", id_},           {"type", "function_call"}, {"status", status},
            {"call_id", call_id_}, {"name", function_},       {"arguments", with_text ? text_ : ""}};
  Json content = Json::array();
  if (with_text) content.push_back(part(text_));
  if (kind_ == Kind::reasoning)
    return {{"id", id_},          {"type", "reasoning"},          {"summary", Json::array()},
            {"content", content}, {"encrypted_content", nullptr}, {"status", status}};
  return {{"id", id_}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", content}};
}

Json OutputItems::part(const std::string& text) const {
  if (kind_ == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

} // namespace ridge::server
