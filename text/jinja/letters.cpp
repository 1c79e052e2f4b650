// Python's character classes and case changes, with multi-character mappings and final sigma. utf8proc has simple
// mappings and full folding; full upper case is derived.
#include "core/strings/utf8.h"
#include "text/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>

namespace ridge::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t upper_of(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t lower_of(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t title_of(char32_t c) { // utf8proc uses the rare capital of sharp s
  return c == 0xdf ? c : static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

struct Range {
  char32_t first, last;
};
bool is_within(std::span<const Range> ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// Unicode's Other_Uppercase and Other_Lowercase.
constexpr Range kOtherUpper[] = {
    {0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
constexpr Range kOtherLower[] = {
    {0xaa, 0xaa},     {0xba, 0xba},     {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},     {0x345, 0x345},
    {0x37a, 0x37a},   {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
    {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},   {0xa69c, 0xa69d},   {0xa770, 0xa770},
    {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}};

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

// Skipped between a sigma and the letters of its word.
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_SK: return true;
  default: return std::u32string_view(U"'.:·՟״‘’․‧︓﹒﹕＇．：").find(c) != std::u32string_view::npos;
  }
}

constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2, kSmallSigma = 0x3c3, kIota = 0x3b9, kIotaBelow = 0x345;

struct Folding {
  std::array<utf8proc_int32_t, 8> points{};
  size_t size = 0;
};
Folding folding(char32_t c) {
  Folding out;
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out.points.data(),
                                                        out.points.size(), UTF8PROC_CASEFOLD, &boundary);
  out.size = static_cast<size_t>(std::clamp<utf8proc_ssize_t>(size, 0, out.points.size()));
  return out;
}

// The letters of a small letter without a single capital.
Folding parts_of(char32_t c) { return c < 0x80 || category(c) == UTF8PROC_CATEGORY_LU ? Folding() : folding(c); }

void append_upper(std::string& out, char32_t c) {
  const Folding parts = parts_of(c);
  if (parts.size < 2) return core::append_utf8(out, upper_of(c));
  for (size_t i = 0; i < parts.size; ++i) core::append_utf8(out, upper_of(static_cast<char32_t>(parts.points[i])));
}

void append_title(std::string& out, char32_t c) {
  const Folding parts = parts_of(c);
  if (parts.size < 2 || title_of(c) != c || is_title(c)) return core::append_utf8(out, title_of(c));
  bool is_first = true;
  for (size_t i = 0; i < parts.size; ++i) {
    const auto part = static_cast<char32_t>(parts.points[i]);
    const bool changes = is_first && upper_of(part) != part;
    core::append_utf8(out, changes ? upper_of(part) : part == kIota ? kIotaBelow : part);
    is_first &= !changes;
  }
}

// The context decides the lower case of sigma.
struct Place {
  std::string_view text;
  size_t at;
  CodePoint point;
};

bool ends_word(const Place& place) {
  size_t before = place.at;
  bool follows_letter = false;
  while (before > 0) {
    do --before;
    while (before > 0 && core::is_utf8_continuation(place.text[before]));
    const char32_t c = decode_at(place.text, before).value;
    if (is_case_ignorable(c)) continue;
    follows_letter = is_cased(c);
    break;
  }
  if (!follows_letter) return false;
  for (size_t after = place.at + place.point.bytes; after < place.text.size();) {
    const CodePoint point = decode_at(place.text, after);
    if (!is_case_ignorable(point.value)) return !is_cased(point.value);
    after += point.bytes;
  }
  return true;
}

void append_lower(std::string& out, const Place& place) {
  const char32_t c = place.point.value;
  if (c == kSigma) return core::append_utf8(out, ends_word(place) ? kFinalSigma : kSmallSigma);
  if (c == 0x130)
    out += "i\u0307"; // capital I with a dot
  else
    core::append_utf8(out, lower_of(c));
}

// Calls `append(out, place)` per code point; copies invalid UTF-8.
template <typename Append>
std::string map_points(std::string_view part, std::string_view text, Append append) {
  std::string out;
  out.reserve(part.size());
  const auto first = static_cast<size_t>(part.data() - text.data());
  for (size_t at = first; at < first + part.size();) {
    const Place place{text, at, decode_at(text, at)};
    if (place.point.value == 0xfffd)
      out += text.substr(at, place.point.bytes);
    else
      append(out, place);
    at += place.point.bytes;
  }
  return out;
}

} // namespace

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU || is_within(kOtherUpper, c); }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || is_within(kOtherLower, c); }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_ZS:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP: return false;
  default: return true;
  }
}

std::string upper(std::string_view text) {
  return map_points(text, text, [](std::string& out, const Place& place) { append_upper(out, place.point.value); });
}
std::string lower(std::string_view text) { return lower(text, text); }
std::string lower(std::string_view part, std::string_view text) { return map_points(part, text, append_lower); }
std::string capitalize(std::string_view text) {
  return map_points(text, text, [](std::string& out, const Place& place) {
    if (place.at == 0)
      append_title(out, place.point.value);
    else
      append_lower(out, place);
  });
}
std::string title(std::string_view text) {
  bool inside = false;
  return map_points(text, text, [&inside](std::string& out, const Place& place) {
    if (inside)
      append_lower(out, place);
    else
      append_title(out, place.point.value);
    inside = is_cased(place.point.value);
  });
}
std::string swap_case(std::string_view text) { return swap_case(text, text); }
std::string swap_case(std::string_view part, std::string_view text) {
  return map_points(part, text, [](std::string& out, const Place& place) {
    if (is_upper(place.point.value))
      append_lower(out, place);
    else if (is_lower(place.point.value))
      append_upper(out, place.point.value);
    else
      core::append_utf8(out, place.point.value);
  });
}
std::string case_fold(std::string_view text) {
  return map_points(text, text, [](std::string& out, const Place& place) {
    const Folding folded = folding(place.point.value);
    for (size_t i = 0; i < folded.size; ++i) core::append_utf8(out, static_cast<char32_t>(folded.points[i]));
  });
}

} // namespace ridge::text::jinja
