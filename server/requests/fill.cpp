#include "server/requests/fill.h"

#include "core/error.h"
#include "server/json/api_error.h"

#include <limits>

namespace ridge::server {

std::vector<int32_t> fill_prompt(const Service& service, const text::FillText& text, std::optional<int64_t> most) {
  const text::FillTokens tokens = text::find_fill_tokens(service.tokenizer());
  if (!tokens.complete())
    throw_invalid("model",
                  "the model {} cannot fill in the middle: its vocabulary has no tokens for prefix, suffix and middle; "
                  "use a model trained for it, such as Qwen2.5-Coder",
                  service.name());
  return text::fill_prompt(service.tokenizer(), tokens, text, most.value_or(std::numeric_limits<int32_t>::max()));
}

} // namespace ridge::server
