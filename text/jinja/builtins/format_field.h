// Format specifications of % and str.format.
#pragma once

#include "text/jinja/runtime.h"

namespace ridge::text::jinja {

inline constexpr int64_t kMaxDigits = 1000;      // maximum precision
inline constexpr bool kCharactersAreData = true; // %c: numbers carry no taint

struct Field {
  std::string fill = " ";
  char align = 0; // < > = ^; 0: numbers right, text left
  char sign = '-';
  bool is_alternate = false;
  char group = 0;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

TaintedText write_integer(Runtime& runtime, const Field& field, const Value& value);
TaintedText write_float(Runtime& runtime, const Field& field, double value);
TaintedText write_text(Runtime& runtime, const Field& field, const TaintedText& text);
// `spec`: after the colon.
TaintedText write_field(Runtime& runtime, const Value& value, std::string_view spec);

inline bool is_among(char c, std::string_view set) { return c != 0 && set.find(c) != set.npos; }
// Advances `at`. Refuses numbers over 2^40.
int64_t read_number(std::string_view text, size_t& at);

} // namespace ridge::text::jinja
