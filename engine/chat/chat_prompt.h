// From messages to the tokens that a model is given.
#pragma once

#include "engine/loaded_model.h"
#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace ridge::engine {

using Json = nlohmann::ordered_json;

bool is_role(const Json& message, const char* role);

// The prompt's text, by the model's template: `messages` in the OpenAI form; of `options` the BOS and EOS texts are
// filled in here. Throws Error where the template refuses the messages.
text::jinja::TaintedText render_chat(const LoadedModel& model, const text::ChatTemplate& chat_template,
                                     const Json& messages, text::ChatOptions options);

// Its tokens. Only what the template wrote becomes control tokens: "<|im_end|>" in a message is ordinary text.
std::vector<int32_t> chat_tokens(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt);

} // namespace ridge::engine
