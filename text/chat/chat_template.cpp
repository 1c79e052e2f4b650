// As Hugging Face's apply_chat_template.
#include "text/chat/chat_template.h"

#include "core/error.h"

#include <algorithm>
#include <cstdio>

namespace ridge::text {

namespace {

constexpr std::string_view kRoles[] = {"system", "developer",   "user",     "assistant", "tool",
                                       "model",  "observation", "function", "ipython"};

bool is_data(std::span<const std::string_view> path, std::string_view text) {
  if (path.size() == 1) return path[0] != "bos_token" && path[0] != "eos_token";
  const bool is_role = path.size() == 2 && path[0] == "messages" && path[1] == "role";
  return !is_role || std::ranges::find(kRoles, text) == std::end(kRoles);
}

} // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name) {
  return ChatTemplate(jinja::Template::parse(source, std::move(name)));
}

jinja::TaintedText ChatTemplate::render_tainted(const nlohmann::ordered_json& messages,
                                                const ChatOptions& options) const {
  if (!messages.is_array())
    throw_error("chat messages: expected a JSON array of messages, got {}", messages.type_name());
  for (size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_object() || !messages[i].contains("role") || !messages[i]["role"].is_string())
      throw_error("chat messages: message {}: expected an object with a \"role\" string", i);
  if (!options.extra.is_object())
    throw_error("chat template variables: expected a JSON object, got {}", options.extra.type_name());

  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  variables["messages"] = messages;
  variables["tools"] = options.tools; // null, not undefined: templates distinguish them
  variables["documents"] = options.documents;
  variables["add_generation_prompt"] = options.add_generation_prompt;
  variables["bos_token"] = options.bos_token;
  variables["eos_token"] = options.eos_token;
  for (const auto& [name, value] : options.extra.items()) variables[name] = value;

  std::tm now{};
  if (options.now) {
    now = *options.now;
  } else {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &now);
  }
  return template_.render_tainted(variables, now, is_data);
}

std::tm parse_time(std::string_view text) {
  std::tm time{};
  int year = 0, month = 0, used = 0;
  const std::string copy(text);
  const int fields = std::sscanf(copy.c_str(), "%4d-%2d-%2d%nT%2d:%2d:%2d%n", &year, &month, &time.tm_mday, &used,
                                 &time.tm_hour, &time.tm_min, &time.tm_sec, &used);
  const bool is_whole = (fields == 3 || fields == 6) && static_cast<size_t>(used) == text.size();
  if (!is_whole || year < 1900 || month < 1 || month > 12 || time.tm_mday < 1 || time.tm_mday > 31 ||
      time.tm_hour < 0 || time.tm_hour > 23 || time.tm_min < 0 || time.tm_min > 59 || time.tm_sec < 0 ||
      time.tm_sec > 59)
    throw_error("time '{}': expected a form like 2026-01-15T12:00:00", text);
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_isdst = -1;
  std::tm whole = time;
  std::mktime(&whole);
  time.tm_wday = whole.tm_wday;
  time.tm_yday = whole.tm_yday;
  if (whole.tm_mday != time.tm_mday) throw_error("time '{}': no such day", text);
  return time;
}

} // namespace ridge::text
