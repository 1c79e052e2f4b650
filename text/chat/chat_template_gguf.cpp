// Chooses the chat template of a model file.
#include "text/chat/chat_template.h"

#include "core/error.h"

namespace ridge::text {

ChosenTemplate choose_chat_template(const gguf::File& file, std::string_view variant) {
  std::vector<std::string> keys{"tokenizer.chat_template"};
  if (!variant.empty()) keys.insert(keys.begin(), fmt::format("tokenizer.chat_template.{}", variant));
  for (std::string& key : keys) {
    const std::string_view source = file.get_string(key, "");
    if (!source.empty()) return {ChatTemplate::parse(source, fmt::format("{}: {}", file.path(), key)), std::move(key)};
  }
  return {ChatTemplate::builtin(kPlainTemplate), std::string(kPlainTemplate)};
}

} // namespace ridge::text
