// Fill-in-the-middle prompts.
#pragma once

#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::text {

struct FillTokens {
  int32_t prefix = -1, suffix = -1, middle = -1; // precede the three parts
  int32_t repository = -1, file = -1;            // before names; -1: none

  bool complete() const { return prefix >= 0 && suffix >= 0 && middle >= 0; }
};

// From the file's metadata, else by known texts.
FillTokens find_fill_tokens(const Tokenizer& tokenizer);

struct FillFile {
  std::string name, text;
};

struct FillText {
  std::vector<int32_t> prefix, suffix;
  std::vector<int32_t> begun; // beginning of the gap's text
  std::vector<FillFile> files;
};

// The prompt: other files (with a project name), prefix, suffix, middle token; at most `most` tokens. Drops first
// files, then text far from the gap, with 3/4 of the rest before it. Requires all tokens. Throws Error if the marks and
// `begun` do not fit.
std::vector<int32_t> fill_prompt(const Tokenizer& tokenizer, const FillTokens& tokens, const FillText& text,
                                 int64_t most);

} // namespace ridge::text
