#include "engine/chat_prompt.h"

#include "core/error.h"

#include <string>
#include <utility>

namespace ridge::engine {

bool is_role(const Json& message, const char* role) { return message["role"] == role; }

namespace {

// Templates of models that know no system role (Gemma 2, the first Mistral) refuse its message. Its text then opens the
// user's first message.
text::jinja::TaintedText render_any(const text::ChatTemplate& chat_template, const Json& messages,
                                    const text::ChatOptions& options) {
  const bool mergeable = messages.size() > 1 && is_role(messages[0], "system") && is_role(messages[1], "user") &&
                         messages[0]["content"].is_string() && messages[1]["content"].is_string();
  if (!mergeable) return chat_template.render_tainted(messages, options);
  try {
    return chat_template.render_tainted(messages, options);
  } catch (const Error& refusal) {
    Json merged = messages;
    merged.erase(0);
    merged[0]["content"] =
        messages[0]["content"].get<std::string>() + "\n\n" + messages[1]["content"].get<std::string>();
    try {
      return chat_template.render_tainted(merged, options);
    } catch (const Error&) {
      throw refusal; // it was something else
    }
  }
}

} // namespace

text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  const auto text_of = [&](int32_t id) { return id >= 0 ? std::string(tokenizer.token_text(id)) : std::string(); };
  options.bos_token = text_of(tokenizer.bos());
  options.eos_token = text_of(tokenizer.eos());
  return render_any(chat_template, messages, options);
}

std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) {
  const std::string_view text = prompt.bytes(), bos = tokenizer.bos() >= 0 ? tokenizer.token_text(tokenizer.bos()) : "";
  // Templates that write the BOS token themselves must not get a second one.
  const auto data = prompt.data();
  const bool has_bos = !bos.empty() && text.starts_with(bos) && (data.empty() || data[0].begin >= bos.size());
  std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = !has_bos, .parse_special = true, .data = data});
  if (tokenizer.add_eos() && !has_bos && !tokens.empty() && tokens.back() == tokenizer.eos())
    tokens.pop_back(); // the model ends the turn
  return tokens;
}

void check_messages(const Json& messages, const std::string& label) {
  if (!messages.is_array()) throw_error("{}: expected a JSON list of messages", label);
  for (size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_object() || !messages[i].contains("role") || !messages[i]["role"].is_string() ||
        !messages[i].contains("content"))
      throw_error("{}: message {}: expected an object with \"role\" and \"content\"", label, i);
}

} // namespace ridge::engine
