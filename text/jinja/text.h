// Python's view of text over UTF-8 bytes: code points, white space, case, lines, and how numbers and strings print.
// Bytes that are not UTF-8 count as one code point each (U+FFFD) and are copied through unchanged.
#pragma once

#include "text/jinja/tainted_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text::jinja {

struct CodePoint {
  char32_t value;
  size_t bytes; // it occupies, at least 1
};
CodePoint decode_at(std::string_view text, size_t offset); // offset < text.size()

// Byte offsets where each code point begins, and the end: code points + 1 entries.
std::vector<size_t> code_point_offsets(std::string_view text);
size_t code_point_count(std::string_view text);

bool is_space(char32_t value); // as str.isspace
bool is_word(char32_t value);  // letters, digits and _, as \w
bool is_alpha(char32_t value);
bool is_digit(char32_t value);   // Nd and the digits Python counts with it
bool is_decimal(char32_t value); // Nd
bool is_numeric(char32_t value); // Nd, Nl, No
bool is_upper(char32_t value);
bool is_lower(char32_t value);
bool is_title(char32_t value);
bool is_printable(char32_t value);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string lower(std::string_view part, std::string_view text); // of a part; the rest decides over a final sigma
std::string capitalize(std::string_view text);
std::string title(std::string_view text); // str.title: a word begins after every non-letter
std::string swap_case(std::string_view text);
std::string swap_case(std::string_view part, std::string_view text);
std::string case_fold(std::string_view text);

// Without `chars`, white space.
std::string_view strip(std::string_view text, bool left, bool right, std::optional<std::string_view> chars = {});
// Without `separator`, runs of white space; `limit` < 0: no limit; `from_right` counts the limit from the end.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

std::string float_repr(double value);           // the shortest digits that read back, as Python prints them
std::string string_repr(std::string_view text); // quoted and escaped as Python prints a string inside a list
TaintedText string_repr(const TaintedText& text);
std::string escape_html(std::string_view text);

// Underscores may stand between two letters or digits; they are dropped. Nothing where they stand elsewhere.
std::optional<std::string> without_underscores(std::string_view text);
// As float(text) reads it; nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text);

} // namespace ridge::text::jinja
