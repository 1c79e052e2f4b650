#include "server/responses/response_items.h"

#include "server/answers.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/tools.h"

#include <utility>

namespace ridge::server {
namespace {

Json message_of(const Fields& item) {
  std::string role = item.text("role").value_or("");
  if (role == "developer") role = "system";
  if (role != "user" && role != "assistant" && role != "system")
    throw_invalid(item.path_of("role"), "{}: there is no role \"{}\"; expected user, assistant, system or developer",
                  item.path_of("role"), role);
  const Json* content = item.find("content");
  return {{"role", role}, {"content", content ? content_text(*content, item.path_of("content")) : ""}};
}

// Calls belong to the answer that they follow.
void add_call(Json& messages, const Fields& item) {
  const auto id = item.text("call_id");
  if (!id) throw_invalid(item.path_of("call_id"), "{} is missing", item.path_of("call_id"));
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages.back()["tool_calls"].push_back(said_of([&] { return text::read_call(item.json(), *id, item.path()); }));
}

// What the call of that id gave: a message of the role "tool" with the function's name.
Json result_of(const Json& messages, const Fields& item) {
  const std::string id = item.text("call_id").value_or("");
  const Json* output = item.find("output");
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (!message->contains("tool_calls")) continue;
    for (const Json& call : (*message)["tool_calls"])
      if (call["id"] == id)
        return {{"role", "tool"},
                {"tool_call_id", id},
                {"name", call["function"]["name"]},
                {"content", output ? result_text(*output, item.path_of("output")) : ""}};
  }
  throw_invalid(item.path_of("call_id"), "{}: there is no function call with this id before it",
                item.path_of("call_id"));
}

} // namespace

void add_input(Json& messages, const Json& input) {
  if (input.is_string()) return messages.push_back({{"role", "user"}, {"content", input}});
  if (!input.is_array() || input.empty()) throw_invalid("input", "input: expected text or a list of items");
  for (size_t i = 0; i < input.size(); ++i) {
    const Fields item(input[i], fmt::format("input[{}]", i));
    const std::string type = item.text("type").value_or("message");
    if (type == "message")
      messages.push_back(message_of(item));
    else if (type == "function_call")
      add_call(messages, item);
    else if (type == "function_call_output")
      messages.push_back(result_of(messages, item));
    else if (type != "reasoning")
      throw_invalid(item.path_of("type"), "{}: items of type \"{}\" are not supported", item.path_of("type"), type);
  }
}

void OutputItems::add(Kind kind, const std::string& text) {
  if (text.empty()) return;
  if (open_ && kind != kind_) close(true);
  if (!open_) open(kind);
  text_ += text;
  Json members = {{"delta", text}};
  if (kind == Kind::message) members["logprobs"] = Json::array();
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
  id_ = new_id(kind == Kind::message ? "msg" : kind == Kind::call ? "fc" : "rs");
  text_.clear();
  emit_("response.output_item.added", {{"output_index", items_.size()}, {"item", item("in_progress", false)}});
  if (kind != Kind::call) emit_part("response.content_part.added", {{"part", part("")}});
}

void OutputItems::close(bool complete) {
  if (kind_ == Kind::call) {
    emit_of_item("response.function_call_arguments.done", {{"name", function_}, {"arguments", text_}});
  } else {
    Json members = {{"text", text_}};
    if (kind_ == Kind::message) members["logprobs"] = Json::array();
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
    return {{"id", id_}, {"type", "reasoning"}, {"summary", Json::array()}, {"content", content}, {"status", status}};
  return {{"id", id_}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", content}};
}

Json OutputItems::part(const std::string& text) const {
  if (kind_ == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

} // namespace ridge::server
