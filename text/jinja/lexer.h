// Jinja2's lexer with trim_blocks and lstrip_blocks on, as Hugging Face sets them: a newline after a block tag and
// the white space before one that begins its line belong to the tag.
#pragma once

#include "text/jinja/value.h"

namespace ridge::text::jinja {

struct Token {
  enum class Kind {
    data,
    print_begin,
    print_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    floating,
    symbol,
    end
  };
  Kind kind;
  size_t offset = 0; // in the normalized source
  std::string text;  // data, names and symbols as written, strings unescaped
  Value integer;
  double floating = 0;
};

// A Problem and its place in the source.
struct PlacedProblem {
  Problem problem;
  size_t offset;
};

// Line ends become \n and one at the very end is dropped. Token offsets count in this text.
std::string normalize_source(std::string_view source);

// The last token is `end`. Throws PlacedProblem.
std::vector<Token> tokenize(std::string_view source);

} // namespace ridge::text::jinja
