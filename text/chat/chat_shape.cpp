#include "text/chat/chat_shape.h"

#include "core/error.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <utility>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kGap = "\n\n";

std::string word(size_t i) { return "zqword" + std::to_string(i) + "zq"; }

Json sample(std::string_view roles) {
  Json messages = Json::array();
  for (size_t i = 0; i < roles.size(); ++i) {
    const char* role = roles[i] == 's' ? "system" : roles[i] == 'u' ? "user" : "assistant";
    messages.push_back({{"role", role}, {"content", word(i)}});
  }
  return messages;
}

// Renders samples. Some templates require a list of tools.
bool writes_all(const ChatTemplate& chat_template, const Json& messages) {
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  for (const Json& tools : {Json(), Json::array()}) {
    options.tools = tools;
    try {
      const std::string text = chat_template.render(messages, options);
      for (size_t i = 0; i < messages.size(); ++i)
        if (text.find(word(i)) == std::string::npos) return false;
      return true;
    } catch (const Error&) {
    }
  }
  return false;
}

bool reads(const std::string& source, const std::string& member) {
  const auto ends_name = [&](size_t end) {
    return end >= source.size() || !(std::isalnum(static_cast<unsigned char>(source[end])) || source[end] == '_');
  };
  for (size_t at = source.find(member); at != std::string::npos; at = source.find(member, at + 1))
    if (at > 0 && std::string_view(".'\"").find(source[at - 1]) != std::string_view::npos &&
        ends_name(at + member.size()))
      return true;
  return false;
}

bool is_role(const Json& message, const char* role) { return message["role"] == role; }

void join(Json& to, const Json& message) {
  const auto text_of = [](const Json& one, const char* member) { // a content beside calls may be null
    const auto at = one.find(member);
    return at != one.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  for (const char* member : {"content", "reasoning_content"}) {
    const std::string before = text_of(to, member), text = text_of(message, member);
    if (!text.empty()) to[member] = before.empty() ? text : before + kGap + text;
  }
  if (message.contains("tool_calls"))
    for (const Json& call : message["tool_calls"]) to["tool_calls"].push_back(call);
}

// Joins unsupported later system messages with the first.
void join_systems(const ChatShape& shape, Json& messages) {
  Json systems = Json::array(), others = Json::array();
  for (Json& message : messages) {
    const bool leads = others.empty();
    if (!is_role(message, "system") || (!leads && shape.later_systems))
      others.push_back(std::move(message));
    else if (systems.empty() || (leads && shape.systems))
      systems.push_back(std::move(message));
    else
      join(systems.back(), message);
  }
  messages = std::move(systems);
  messages.insert(messages.end(), others.begin(), others.end());
}

// Moves the system text into the first user message.
void drop_system_role(Json& messages) {
  if (messages.empty() || !is_role(messages[0], "system")) return;
  messages[0]["role"] = "user";
  if (messages.size() < 2 || !is_role(messages[1], "user")) return;
  join(messages[0], messages[1]);
  messages.erase(1);
}

// Does not join calls with a previous answer: templates count no turn for them or drop their text.
void join_same(const ChatShape& shape, Json& messages) {
  Json joined = Json::array();
  for (Json& message : messages) {
    const bool same = !joined.empty() && joined.back()["role"] == message["role"] &&
                      ((!shape.questions && is_role(message, "user")) ||
                       (!shape.answers && is_role(message, "assistant") &&
                        (!message.contains("tool_calls") || joined.back().contains("tool_calls"))));
    if (same)
      join(joined.back(), message);
    else
      joined.push_back(std::move(message));
  }
  messages = std::move(joined);
}

void add_question(const ChatShape& shape, Json& messages) {
  const auto first = std::ranges::find_if(messages, [](const Json& m) { return !is_role(m, "system"); });
  const bool has_question = std::ranges::any_of(messages, [](const Json& m) { return is_role(m, "user"); });
  const bool begins_wrong = first != messages.end() && !is_role(*first, "user") && !shape.assistant_may_begin;
  if (!begins_wrong && (has_question || shape.user_message_optional)) return;
  if (first == messages.end() && !messages.empty()) {
    messages.back()["role"] = "user";
    return;
  }
  const Json nothing_said = {{"role", "user"}, {"content", ""}};
  messages.insert(first, nothing_said);
}

} // namespace

ChatShape find_chat_shape(const ChatTemplate& chat_template) {
  ChatShape shape;
  const auto takes = [&](std::string_view roles) {
    Json messages = sample(roles);
    rename_members(shape, messages);
    return writes_all(chat_template, messages);
  };
  shape.parts = true;
  shape.parts = takes("u") && !writes_all(chat_template, sample("u"));
  shape.system = takes("su");
  shape.systems = shape.system && takes("ssu");
  shape.later_systems = shape.system && takes("suasu") && takes("us") && takes("uasu");
  shape.questions = takes("uu") && takes("uauu");
  shape.answers = takes("uaau");
  shape.assistant_may_begin = takes("au") && (!shape.system || takes("sau"));
  shape.user_message_optional = takes("a") && (!shape.system || takes("s"));
  shape.thinking_member = reads(chat_template.source(), "thinking");
  shape.reasoning_member = reads(chat_template.source(), "reasoning");
  return shape;
}

Json fit_shape(const ChatShape& shape, Json messages) {
  join_systems(shape, messages);
  if (!shape.system) drop_system_role(messages);
  join_same(shape, messages);
  add_question(shape, messages);
  return messages;
}

void rename_members(const ChatShape& shape, Json& messages) {
  for (Json& message : messages) {
    if (const auto reasoning = message.find("reasoning_content"); reasoning != message.end()) {
      const Json text = *reasoning;
      if (shape.thinking_member) message["thinking"] = text;
      if (shape.reasoning_member) message["reasoning"] = text;
    }
    if (shape.parts && message["content"].is_string())
      message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
  }
}

} // namespace ridge::text
