// Filling in the middle: a prompt that has what stands before a gap and behind it, marked by tokens of the vocabulary,
// and that a model which learned these tokens continues with what belongs into the gap.
#pragma once

#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::text {

struct FillTokens {
  int32_t prefix = -1, suffix = -1, middle = -1; // stand before the three parts
  int32_t repository = -1, file = -1;            // stand before names; -1: the model has none

  bool complete() const { return prefix >= 0 && suffix >= 0 && middle >= 0; }
};

// Those that the file names; those that it does not name by the texts which models have for them.
FillTokens find_fill_tokens(const Tokenizer& tokenizer);

struct FillFile { // other text of the same project
  std::string name, text;
};

struct FillText {
  std::vector<int32_t> prefix, suffix; // around the gap
  std::vector<int32_t> begun;          // what the gap's text begins with
  std::vector<FillFile> files;
};

// The prompt: the other files, where there are any under the name of a project; the prefix, the suffix, and the token
// that stands before the middle. It has at most `most` tokens: where that is not enough, the files go first, from the
// start on, and of the text what is farthest from the gap, so that three quarters of what stays stand before it.
// The tokens must be complete. Throws Error where not even the marks and `begun` fit.
std::vector<int32_t> fill_prompt(const Tokenizer& tokenizer, const FillTokens& tokens, const FillText& text,
                                 int64_t most);

} // namespace ridge::text
