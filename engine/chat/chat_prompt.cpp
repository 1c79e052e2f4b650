#include "engine/chat/chat_prompt.h"

#include <string>
#include <utility>

namespace ridge::engine {

bool is_role(const Json& message, const char* role) { return message["role"] == role; }

text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  const auto text_of = [&](int32_t id) { return id >= 0 ? std::string(tokenizer.token_text(id)) : std::string(); };
  options.bos_token = text_of(tokenizer.bos());
  options.eos_token = text_of(tokenizer.eos());
  return chat_template.render_tainted(messages, options);
}

std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) {
  const std::string_view text = prompt.bytes(), bos = tokenizer.bos() >= 0 ? tokenizer.token_text(tokenizer.bos()) : "";
  // Templates that write BOS must not get a second one.
  const auto data = prompt.data();
  const bool has_bos = !bos.empty() && text.starts_with(bos) && (data.empty() || data[0].begin >= bos.size());
  std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = !has_bos, .parse_special = true, .data = data});
  if (tokenizer.add_eos() && !has_bos && !tokens.empty() && tokens.back() == tokenizer.eos()) tokens.pop_back();
  return tokens;
}

} // namespace ridge::engine
