#include "text/jinja/text.h"

#include "core/strings/find.h"
#include "core/strings/utf8.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

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

std::string_view strip(std::string_view text, bool left, bool right, std::optional<std::string_view> chars) {
  std::u32string set;
  if (chars)
    for (size_t at = 0; at < chars->size(); at += decode_at(*chars, at).bytes) set += decode_at(*chars, at).value;
  std::ranges::sort(set);
  const auto goes = [&](char32_t c) { return chars ? std::ranges::binary_search(set, c) : is_space(c); };
  while (left && !text.empty()) {
    const CodePoint point = decode_at(text, 0);
    if (!goes(point.value)) break;
    text.remove_prefix(point.bytes);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && core::is_utf8_continuation(text[start])) --start;
    if (start + decode_at(text, start).bytes != text.size()) start = text.size() - 1;
    if (!goes(decode_at(text, start).value)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

namespace {

void add_part(std::vector<std::string_view>& parts, std::string_view part) {
  if (parts.size() == kMaxParts) fail("a text is split into more than {} parts", kMaxParts);
  parts.push_back(part);
}

// Splits reversed text from the left.
std::vector<std::string_view> split_backwards(std::string_view text, std::string_view separator, int64_t limit) {
  const std::string backwards(text.rbegin(), text.rend()), reversed(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (; limit != 0; --limit) {
    const size_t at = core::find(backwards, reversed, from);
    if (at == std::string::npos) break;
    add_part(parts, text.substr(text.size() - at, at - from));
    from = at + separator.size();
  }
  add_part(parts, text.substr(0, text.size() - from));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> words; // all words; the rest is joined again at the limit
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    if (is_space(point.value)) {
      at += point.bytes;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !is_space(decode_at(text, end).value)) end += decode_at(text, end).bytes;
    add_part(words, text.substr(at, end - at));
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
  if (from_right) return split_backwards(text, *separator, limit);
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (; limit != 0; --limit) {
    const size_t at = core::find(text, *separator, from);
    if (at == text.npos) break;
    add_part(parts, text.substr(from, at - from));
    from = at + separator->size();
  }
  add_part(parts, text.substr(from));
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
      add_part(lines, text.substr(start, (keep_ends ? next : at) - start));
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
