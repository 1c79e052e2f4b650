#include "app/terminal/chat/markdown_export.h"

#include "app/terminal/markdown/markdown.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const Json& part : content) {
      const std::string type = part.value("type", "");
      text += type == "text" ? part.value("text", "") : type == "input_audio" ? "*[sound]*" : "*[picture]*";
    }
  return text;
}

std::string fence_for(std::string_view text) {
  std::string fence = "```";
  while (text.find(fence) != std::string_view::npos) fence += '`';
  return fence;
}

std::string block(std::string_view text, std::string_view language) {
  const std::string fence = fence_for(text);
  return fmt::format("{}{}\n{}\n{}\n", fence, language, text, fence);
}

std::string message_text(const Json& message) {
  const std::string role = message.value("role", "");
  const std::string text = message.contains("content") ? text_of(message["content"]) : "";
  if (role == "system") return fmt::format("## System prompt\n\n{}\n", text);
  if (role == "user") return fmt::format("## You\n\n{}\n", text);
  if (role == "tool") return fmt::format("## Result of {}\n\n{}", message.value("name", "a tool"), block(text, ""));
  std::string out = "## Answer\n\n";
  if (const auto reasoning = message.find("reasoning_content"); reasoning != message.end() && reasoning->is_string())
    out += fmt::format("<details><summary>Reasoning</summary>\n\n{}\n\n</details>\n\n", reasoning->get<std::string>());
  if (!text.empty()) out += text + "\n";
  if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array())
    for (const Json& call : *calls)
      out += "\n" + block(call.contains("function") ? call["function"].dump(2) : call.dump(2), "json");
  return out;
}

} // namespace

std::string conversation_as_markdown(const Json& messages, std::string_view title) {
  std::string text = fmt::format("# {}\n", title);
  for (const Json& message : messages) text += "\n" + message_text(message);
  return text;
}

std::string last_code(std::string_view markdown) {
  std::string last, code;
  Fences fences;
  while (!markdown.empty()) {
    const size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const bool fence = fences.take(line);
    if (fence && !fences.in_code())
      last = std::exchange(code, {});
    else if (!fence && fences.in_code())
      code += fmt::format("{}\n", line);
  }
  return fences.in_code() ? code : last;
}

} // namespace ridge::app
