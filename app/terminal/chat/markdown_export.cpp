#include "app/terminal/chat/markdown_export.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const Json& part : content) text += part.value("type", "") == "text" ? part.value("text", "") : "*[picture]*";
  return text;
}

// A fence that is longer than any in the text.
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

// Behind up to three spaces; how many marks, 0: none.
size_t fence_marks(std::string_view line) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(first);
  if (first > 3 || line.empty() || (line[0] != '`' && line[0] != '~')) return 0;
  const size_t marks = std::min(line.find_first_not_of(line[0]), line.size());
  return marks >= 3 ? marks : 0;
}

} // namespace

std::string conversation_as_markdown(const Json& messages, std::string_view title) {
  std::string text = fmt::format("# {}\n", title);
  for (const Json& message : messages) text += "\n" + message_text(message);
  return text;
}

std::string last_code(std::string_view markdown) {
  std::string last, code;
  size_t opened = 0; // marks of the fence that is open; 0: none
  while (!markdown.empty()) {
    const size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const size_t marks = fence_marks(line);
    if (opened == 0) {
      opened = marks;
    } else if (marks >= opened && line.find_first_not_of(" `~") == std::string_view::npos) {
      last = std::exchange(code, {});
      opened = 0;
    } else {
      code += fmt::format("{}\n", line);
    }
  }
  return opened > 0 ? code : last;
}

} // namespace ridge::app
