// One field of Python's formatting: its width, precision and sign, and the writing of a value into it. Shared by the %
// operator and str.format.
#pragma once

#include "text/jinja/runtime.h"

namespace ridge::text::jinja {

inline constexpr int64_t kMaxDigits = 1000;      // of a field's precision
inline constexpr bool kCharactersAreData = true; // those made of numbers (%c), because numbers carry no taint

struct Field {
  std::string fill = " ";
  char align = 0; // < > = ^, or 0: numbers right, text left
  char sign = '-';
  bool is_alternate = false;
  char group = 0; // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

TaintedText write_integer(Runtime& runtime, const Field& field, const Value& value);
TaintedText write_float(Runtime& runtime, const Field& field, double value);
TaintedText write_text(Runtime& runtime, const Field& field, const TaintedText& text);
// `spec`: the part of a replacement field after its colon.
TaintedText write_field(Runtime& runtime, const Value& value, std::string_view spec);

inline bool is_among(char c, std::string_view set) { return c != 0 && set.find(c) != set.npos; }
// Reads a number at `at` and moves `at` behind it. Refuses numbers over 2^40.
int64_t read_number(std::string_view text, size_t& at);

} // namespace ridge::text::jinja
