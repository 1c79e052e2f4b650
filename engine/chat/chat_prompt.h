// Converts messages to the tokens of a prompt.
#pragma once

#include "engine/loading/loaded_model.h"
#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace ridge::engine {

using Json = nlohmann::ordered_json;

bool is_role(const Json& message, const char* role);

// Fills in the options' BOS and EOS texts. Throws Error if the template refuses.
text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options);

// Only the template yields control tokens: "<|im_end|>" in a message is ordinary text.
std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt);

} // namespace ridge::engine
