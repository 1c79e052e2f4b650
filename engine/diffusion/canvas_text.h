// A diffusion model's answer as text while it forms.
#pragma once

#include "text/tokenizer/tokenizer.h"

#include <span>
#include <string>

namespace ridge::engine {

// Without control characters but line breaks, with a block for each undecided token; those behind the last decided one
// share a block.
std::string canvas_text(const text::Tokenizer& tokenizer, int32_t mask, std::span<const int32_t> answer);

} // namespace ridge::engine
