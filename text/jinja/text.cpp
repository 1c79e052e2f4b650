// Text as Python sees it. Case mapping is utf8proc's simple one, plus the German sharp s, which grows.
#include "text/jinja/text.h"

#include "core/strings/utf8.h"
#include "text/jinja/value.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ridge::text::jinja {

CodePoint decode_at(std::string_view text, size_t offset) {
  const std::string_view rest = text.substr(offset);
  const core::Utf8Head head = core::utf8_head(rest);
  if (head.status != core::Utf8Status::valid) return {0xfffd, 1};
  return {core::utf8_code_point(rest.substr(0, head.bytes)), head.bytes};
}

std::vector<size_t> code_point_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

size_t code_point_count(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) ++count;
  return count;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

namespace {
utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t upper_of(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t lower_of(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }

constexpr char32_t kSharpS = 0xdf;

void append_upper(std::string& out, char32_t c) {
  if (c == kSharpS)
    out += "SS";
  else
    core::append_utf8(out, upper_of(c));
}

void append_title(std::string& out, char32_t c) {
  if (c == kSharpS)
    out += "Ss";
  else
    core::append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

// Calls `append(out, code point, index)` for each code point; bytes that are not UTF-8 pass through.
template <typename Append>
std::string map_points(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  size_t index = 0;
  for (size_t at = 0; at < text.size(); ++index) {
    const CodePoint point = decode_at(text, at);
    if (point.value == 0xfffd)
      out += text.substr(at, point.bytes);
    else
      append(out, point.value, index);
    at += point.bytes;
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
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
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
  return map_points(text, [](std::string& out, char32_t c, size_t) { append_upper(out, c); });
}
std::string lower(std::string_view text) {
  return map_points(text, [](std::string& out, char32_t c, size_t) { core::append_utf8(out, lower_of(c)); });
}
std::string capitalize(std::string_view text) {
  return map_points(text, [](std::string& out, char32_t c, size_t index) {
    if (index == 0)
      append_title(out, c);
    else
      core::append_utf8(out, lower_of(c));
  });
}
std::string title(std::string_view text) {
  bool inside = false;
  return map_points(text, [&inside](std::string& out, char32_t c, size_t) {
    if (inside)
      core::append_utf8(out, lower_of(c));
    else
      append_title(out, c);
    inside = is_alpha(c);
  });
}
std::string swap_case(std::string_view text) {
  return map_points(text, [](std::string& out, char32_t c, size_t) {
    if (is_upper(c))
      core::append_utf8(out, lower_of(c));
    else if (is_lower(c))
      append_upper(out, c);
    else
      core::append_utf8(out, c);
  });
}

std::string_view strip(std::string_view text, bool left, bool right, std::optional<std::string_view> chars) {
  std::u32string set;
  if (chars)
    for (size_t at = 0; at < chars->size(); at += decode_at(*chars, at).bytes) set += decode_at(*chars, at).value;
  const auto goes = [&](char32_t c) { return chars ? set.find(c) != set.npos : is_space(c); };
  while (left && !text.empty()) {
    const CodePoint point = decode_at(text, 0);
    if (!goes(point.value)) break;
    text.remove_prefix(point.bytes);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && core::is_utf8_continuation(text[start])) --start;
    if (start + decode_at(text, start).bytes != text.size()) start = text.size() - 1; // not UTF-8: one byte
    if (!goes(decode_at(text, start).value)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

namespace {

std::vector<std::string_view> split_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> words; // all of them, then joined back to the limit
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    if (is_space(point.value)) {
      at += point.bytes;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !is_space(decode_at(text, end).value)) end += decode_at(text, end).bytes;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  if (limit < 0 || words.size() <= static_cast<size_t>(limit)) return words;
  const size_t kept = static_cast<size_t>(limit);
  if (from_right) {
    const size_t rest = words.size() - kept;
    const char* end = words[rest - 1].data() + words[rest - 1].size();
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(rest));
    words.insert(words.begin(), text.substr(0, static_cast<size_t>(end - text.data()))); // leading white space stays
    return words;
  }
  const size_t start = static_cast<size_t>(words[kept].data() - text.data());
  words.resize(kept);
  words.push_back(text.substr(start));
  return words;
}

} // namespace

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    bool from_right) {
  if (!separator) return split_space(text, limit, from_right);
  if (separator->empty()) fail("empty separator");
  std::vector<std::string_view> parts;
  while (limit != 0) {
    const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == text.npos) break;
    if (from_right) {
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    } else {
      parts.push_back(text.substr(0, at));
      text = text.substr(at + separator->size());
    }
    --limit;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    const char32_t c = point.value;
    size_t next = at + point.bytes;
    if ((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029) {
      if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

char quote_of(std::string_view text) {
  return text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
}

std::string escaped(std::string_view text, char quote) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    const auto c = static_cast<uint32_t>(point.value);
    if (c == static_cast<uint32_t>(quote) || c == '\\')
      (out += '\\') += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (is_printable(point.value))
      out += text.substr(at, point.bytes);
    else
      out += c < 0x100     ? fmt::format("\\x{:02x}", c)
             : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
    at += point.bytes;
  }
  return out;
}

} // namespace

std::string string_repr(std::string_view text) { return string_repr(TaintedText(std::string(text))).bytes(); }

TaintedText string_repr(const TaintedText& text) {
  const char quote = quote_of(text.bytes());
  TaintedText out;
  out += quote;
  out += text.map([quote](std::string_view bytes) { return escaped(bytes, quote); });
  return out += quote;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&#34;"; break;
    case '\'': out += "&#39;"; break;
    default: out += c;
    }
  return out;
}

namespace {

// Underscores may stand between two digits; they are dropped. Nothing where they stand elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !std::isalnum(static_cast<unsigned char>(text[i - 1])) ||
        !std::isalnum(static_cast<unsigned char>(text[i + 1])))
      return std::nullopt;
  }
  return out;
}

} // namespace

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  text = strip(text, true, true);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
      base = prefix;
    } else if (base == 0 && text.find_first_not_of("0_") != text.npos) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty() || (*digits)[0] == '-') return std::nullopt;
  uint64_t magnitude = 0;
  const auto [end, status] =
      std::from_chars(digits->data(), digits->data() + digits->size(), magnitude, static_cast<int>(base));
  if (end != digits->data() + digits->size()) return std::nullopt;
  if (status == std::errc::result_out_of_range || magnitude > static_cast<uint64_t>(INT64_MAX))
    fail("integer overflow: {} does not fit 64 bits", *digits);
  return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

std::optional<double> parse_float(std::string_view text) {
  auto digits = without_underscores(strip(text, true, true));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  const std::string word = lower(rest);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = INFINITY;
  } else if (word == "nan") {
    value = NAN;
  } else {
    if (rest.empty() || !(std::isdigit(static_cast<unsigned char>(rest[0])) || rest[0] == '.')) return std::nullopt;
    const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (end != rest.data() + rest.size()) return std::nullopt;
    if (status == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
    if (status == std::errc::invalid_argument) return std::nullopt;
  }
  return negative ? -value : value;
}

} // namespace ridge::text::jinja
