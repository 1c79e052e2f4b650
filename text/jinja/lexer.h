// Jinja2's lexer with trim_blocks and lstrip_blocks: block tags take the next newline and white space before them on
// their line.
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
  size_t offset = 0;
  std::string text; // strings: unescaped
  Value integer;
  double floating = 0;
};

struct PlacedProblem {
  Problem problem;
  size_t offset;
};

// Line ends become \n; drops the last. Token offsets refer to it.
std::string normalize_source(std::string_view source);

// Ends with `end`. Throws PlacedProblem.
std::vector<Token> tokenize(std::string_view source);

} // namespace ridge::text::jinja
