// Renders messages to prompts by Jinja templates, of a file or built in.
#pragma once

#include "gguf/gguf.h"
#include "text/jinja/jinja.h"

#include <optional>

namespace ridge::text {

struct ChatOptions {
  nlohmann::ordered_json tools = nullptr;     // functions in OpenAI form; null: none
  nlohmann::ordered_json documents = nullptr; // {title, text}
  bool add_generation_prompt = true;          // end with the assistant's header
  std::string bos_token;
  std::string eos_token;
  std::optional<std::tm> now;                                      // for strftime_now; nullopt: local time
  nlohmann::ordered_json extra = nlohmann::ordered_json::object(); // other variables (enable_thinking, …)
};

class ChatTemplate {
 public:
  // `name`: in errors.
  static ChatTemplate parse(std::string_view source, std::string name);
  // Throws Error for an unknown name and lists builtin_names().
  static ChatTemplate builtin(std::string_view name);
  static std::vector<std::string_view> builtin_names();
  static bool is_builtin(std::string_view name);

  // `messages`: OpenAI form. Throws Error with the template's reason if it refuses them. All strings of the input and
  // all keys are data, except BOS and EOS texts and usual role names, from which templates build control tokens
  // ("<|user|>").
  jinja::TaintedText render_tainted(const nlohmann::ordered_json& messages, const ChatOptions& options) const;
  std::string render(const nlohmann::ordered_json& messages, const ChatOptions& options) const {
    return render_tainted(messages, options).bytes();
  }

  const std::string& name() const { return template_.name(); }
  const std::string& source() const { return template_.source(); }

 private:
  explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}
  jinja::Template template_;
};

inline constexpr std::string_view kPlainTemplate = "plain"; // contents only, for models without roles

// "2026-01-15T12:00:00" or "2026-01-15", local.
std::tm parse_time(std::string_view text);

struct ChosenTemplate {
  ChatTemplate chat_template;
  std::string origin; // metadata key; empty: guessed
};

// Uses tokenizer.chat_template.VARIANT ("tool_use", "rag") if present, else tokenizer.chat_template; either may hold a
// built-in name. Otherwise guesses from special tokens or architecture, else "plain". Throws Error for an invalid
// template.
ChosenTemplate choose_chat_template(const gguf::File& file, std::string_view variant = {});

} // namespace ridge::text
