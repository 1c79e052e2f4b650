// Python's view of UTF-8. Invalid bytes count as U+FFFD and are copied.
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
  size_t bytes;
};
CodePoint decode_at(std::string_view text, size_t offset);

// Starts of code points, and the end.
std::vector<size_t> code_point_offsets(std::string_view text);
size_t code_point_count(std::string_view text);

bool is_space(char32_t value); // str.isspace
bool is_word(char32_t value);  // \w
bool is_alpha(char32_t value);
bool is_digit(char32_t value);   // Nd and others that Python counts
bool is_decimal(char32_t value); // Nd
bool is_numeric(char32_t value); // Nd, Nl, No
bool is_upper(char32_t value);
bool is_lower(char32_t value);
bool is_title(char32_t value);
bool is_printable(char32_t value);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string lower(std::string_view part, std::string_view text); // `text`: context for final sigma
std::string capitalize(std::string_view text);
std::string title(std::string_view text); // words begin after non-letters
std::string swap_case(std::string_view text);
std::string swap_case(std::string_view part, std::string_view text);
std::string case_fold(std::string_view text);

// Default: white space.
std::string_view strip(std::string_view text, bool left, bool right, std::optional<std::string_view> chars = {});
// Default separator: white space. `limit` < 0: none; `from_right`: counted from the end.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

std::string float_repr(double value);           // shortest round-trip digits, Python's format
std::string string_repr(std::string_view text); // quoted as inside a printed list
TaintedText string_repr(const TaintedText& text);
std::string escape_html(std::string_view text);

// Removes underscores between letters or digits; nullopt: there are others.
std::optional<std::string> without_underscores(std::string_view text);
// float(text); nullopt: ValueError.
std::optional<double> parse_float(std::string_view text);

} // namespace ridge::text::jinja
