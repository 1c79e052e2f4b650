#include "server/responses/response_items.h"

#include "server/answers.h"
#include "server/api_error.h"

#include <utility>

namespace ridge::server {
namespace {

std::string text_of(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw_invalid(path, "{}: expected text", path);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.text("type").value_or("");
    if (type != "input_text" && type != "output_text")
      throw_invalid(part.path_of("type"), "{}: this server takes parts of type \"input_text\" and \"output_text\" only",
                    part.path_of("type"));
    text += part.text("text").value_or("");
  }
  return text;
}

Json message_of(const Fields& item) {
  std::string role = item.text("role").value_or("");
  if (role == "developer") role = "system";
  if (role != "user" && role != "assistant" && role != "system")
    throw_invalid(item.path_of("role"), "{}: expected user, assistant, system or developer", item.path_of("role"));
  return {{"role", role}, {"content", text_of(item.required("content"), item.path_of("content"))}};
}

} // namespace

Json input_messages(const Json& input) {
  if (input.is_string()) return Json::array({{{"role", "user"}, {"content", input}}});
  if (!input.is_array() || input.empty()) throw_invalid("input", "input: expected text or a list of items");
  Json messages = Json::array();
  for (size_t i = 0; i < input.size(); ++i) {
    const Fields item(input[i], fmt::format("input[{}]", i));
    const std::string type = item.text("type").value_or("message");
    if (type == "message")
      messages.push_back(message_of(item));
    else if (type != "reasoning")
      throw_invalid(item.path_of("type"), "{}: items of type \"{}\" are not supported", item.path_of("type"), type);
  }
  return messages;
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

void OutputItems::finish(bool complete) {
  if (open_) close(complete);
  if (complete && message_.empty()) {
    open(Kind::message);
    close(true);
  }
}

void OutputItems::open(Kind kind) {
  open_ = true;
  kind_ = kind;
  id_ = new_id(kind == Kind::message ? "msg" : "rs");
  text_.clear();
  emit_("response.output_item.added", {{"output_index", items_.size()}, {"item", item("in_progress", false)}});
  emit_part("response.content_part.added", {{"part", part("")}});
}

void OutputItems::close(bool complete) {
  Json members = {{"text", text_}};
  if (kind_ == Kind::message) members["logprobs"] = Json::array();
  emit_part(kind_ == Kind::message ? "response.output_text.done" : "response.reasoning_text.done", std::move(members));
  emit_part("response.content_part.done", {{"part", part(text_)}});
  Json whole = item(complete ? "completed" : "incomplete", true);
  emit_("response.output_item.done", {{"output_index", items_.size()}, {"item", whole}});
  items_.push_back(std::move(whole));
  if (kind_ == Kind::message) message_ += text_;
  open_ = false;
}

void OutputItems::emit_part(const char* type, Json members) const {
  Json all = {{"item_id", id_}, {"output_index", items_.size()}, {"content_index", 0}};
  all.update(members);
  emit_(type, std::move(all));
}

Json OutputItems::item(const char* status, bool with_text) const {
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
