// From messages to a prompt: the chat template of the model file, a built-in one by name, or none.
#pragma once

#include "gguf/gguf.h"
#include "text/jinja/jinja.h"

#include <optional>

namespace ridge::text {

struct ChatOptions {
  nlohmann::ordered_json tools = nullptr;     // array of functions in OpenAI form; null: none
  nlohmann::ordered_json documents = nullptr; // array of {title, text}; null: none
  bool add_generation_prompt = true;          // end with what introduces the assistant's answer
  std::string bos_token;                      // the text of the token, empty if the model has none
  std::string eos_token;
  std::optional<std::tm> now;                                      // what strftime_now returns; empty: local time
  nlohmann::ordered_json extra = nlohmann::ordered_json::object(); // further variables (enable_thinking, …)
};

class ChatTemplate {
 public:
  // Jinja source; `name` stands for it in messages.
  static ChatTemplate parse(std::string_view source, std::string name);
  // One of builtin_names(); the Error for any other name lists them.
  static ChatTemplate builtin(std::string_view name);
  static std::vector<std::string_view> builtin_names();
  static bool is_builtin(std::string_view name); // those names, and others for the same templates

  // `messages` in OpenAI form: an array of objects with a role. The prompt is exactly what the template writes.
  // Throws Error with the template's reason where the template refuses the messages.
  // Data are all strings of messages, tools, documents and extra variables, keys included. Not data are the texts of
  // the BOS and EOS tokens, and the usual names of roles, because templates build control tokens of them ("<|user|>").
  jinja::TaintedText render_tainted(const nlohmann::ordered_json& messages, const ChatOptions& options) const;
  // Its bytes alone.
  std::string render(const nlohmann::ordered_json& messages, const ChatOptions& options) const {
    return render_tainted(messages, options).bytes();
  }

  const std::string& name() const { return template_.name(); }
  const std::string& source() const { return template_.source(); }

 private:
  explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}
  jinja::Template template_;
};

inline constexpr std::string_view kPlainTemplate = "plain"; // the contents alone, for models that know no roles

// "2026-01-15T12:00:00" or "2026-01-15", as local time.
std::tm parse_time(std::string_view text);

struct ChosenTemplate {
  ChatTemplate chat_template;
  std::string origin; // the metadata key it was read from; empty: the file has none, and this one is guessed
};

// The template of a model file. `variant` asks for one of several ("tool_use", "rag"): tokenizer.chat_template.VARIANT
// if the file has it; then tokenizer.chat_template. Either may hold a built-in template's name in place of Jinja. A
// file without any gets the built-in one that its special tokens or its architecture belong to, else plain. Throws
// Error where a template does not parse.
ChosenTemplate choose_chat_template(const gguf::File& file, std::string_view variant = {});

} // namespace ridge::text
