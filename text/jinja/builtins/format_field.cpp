#include "text/jinja/builtins/format_field.h"

#include "core/strings/utf8.h"
#include "text/jinja/integers.h"
#include "text/jinja/text.h"

#include <cmath>

namespace ridge::text::jinja {

namespace {

TaintedText pad(Runtime& runtime, const Field& field, std::string_view prefix, const TaintedText& body,
                char default_align) {
  const int64_t margin = field.width - static_cast<int64_t>(code_point_count(prefix) + code_point_count(body.bytes()));
  runtime.allow(static_cast<size_t>(std::max<int64_t>(margin, 0)) * field.fill.size());
  const char align = field.align ? field.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? margin / 2 : margin;
  TaintedText out;
  if (align == '=') out += prefix;
  for (int64_t i = 0; i < left; ++i) out += field.fill;
  if (align != '=') out += prefix;
  out += body;
  for (int64_t i = left; i < margin; ++i) out += field.fill;
  return out;
}

// Groups of 3, or 4 for _ in other bases.
std::string grouped(std::string_view digits, char separator, size_t size) {
  const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out += digits.substr(whole);
}

} // namespace

TaintedText write_integer(Runtime& runtime, const Field& field, const Value& value) {
  runtime.scan(integer_work(value));
  std::string digits = digits_of(value, field.type == 'x' || field.type == 'X' ? 16
                                        : field.type == 'o'                    ? 8
                                        : field.type == 'b'                    ? 2
                                                                               : 10);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (field.type == 'X') digits = upper(digits);
  std::string prefix = negative ? "-" : field.sign == '-' ? "" : std::string(1, field.sign);
  if (field.is_alternate && field.type && std::string_view("xXob").find(field.type) != std::string_view::npos)
    (prefix += '0') += field.type;
  if (field.precision > static_cast<int64_t>(digits.size()))
    digits.insert(0, static_cast<size_t>(field.precision) - digits.size(), '0');
  if (field.group) digits = grouped(digits, field.group, field.type && field.type != 'd' && field.type != 'n' ? 4 : 3);
  return pad(runtime, field, prefix, TaintedText(std::move(digits)), '>');
}

TaintedText write_float(Runtime& runtime, const Field& field, double value) {
  std::string prefix = std::signbit(value) && !std::isnan(value) ? "-"
                       : field.sign == '-'                       ? ""
                                                                 : std::string(1, field.sign);
  const double magnitude = std::abs(value);
  const int64_t precision = field.precision < 0 ? 6 : field.precision;
  std::string digits;
  if (!std::isfinite(magnitude)) {
    digits = std::isnan(magnitude) ? "nan" : "inf";
  } else {
    switch (field.type) {
    case 'e':
    case 'E': digits = fmt::format("{:.{}e}", magnitude, precision); break;
    case 'f':
    case 'F': digits = fmt::format("{:.{}f}", magnitude, precision); break;
    case '%': digits = fmt::format("{:.{}f}%", magnitude * 100, precision); break;
    case 'g':
    case 'G': digits = fmt::format("{:.{}g}", magnitude, precision); break;
    default: // like str(), or like g with at least one decimal
      if (field.precision < 0) {
        digits = float_repr(magnitude);
      } else {
        digits = fmt::format("{:.{}g}", magnitude, precision);
        if (digits.find_first_of(".e") == digits.npos) digits += ".0";
      }
    }
  }
  if (field.type == 'E' || field.type == 'G' || field.type == 'F') digits = upper(digits);
  if (field.group) digits = grouped(digits, field.group, 3);
  return pad(runtime, field, prefix, TaintedText(std::move(digits)), '>');
}

TaintedText write_text(Runtime& runtime, const Field& field, const TaintedText& text) {
  std::string_view kept = text.bytes();
  if (field.precision >= 0 && code_point_count(kept) > static_cast<size_t>(field.precision))
    kept = kept.substr(0, code_point_offsets(kept)[static_cast<size_t>(field.precision)]);
  return pad(runtime, field, "", text.part(kept), '<');
}

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > int64_t{1} << 40) fail("too many digits in format string");
  }
  return value;
}

namespace {

Field parse_field(std::string_view spec) {
  Field field;
  size_t at = 0;
  if (!spec.empty()) {
    const size_t fill = decode_at(spec, 0).bytes;
    if (fill < spec.size() && is_among(spec[fill], "<>=^")) {
      field.fill = spec.substr(0, fill);
      field.align = spec[fill];
      at = fill + 1;
    } else if (is_among(spec[0], "<>=^")) {
      field.align = spec[0];
      at = 1;
    }
  }
  const auto next = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (is_among(next(), "+- ")) field.sign = spec[at++];
  if (next() == '#') field.is_alternate = true, ++at;
  if (next() == '0') {
    if (!field.align) field.fill = "0", field.align = '=';
    ++at;
  }
  field.width = read_number(spec, at);
  if (is_among(next(), ",_")) field.group = spec[at++];
  if (next() == '.') {
    ++at;
    if (!is_among(next(), "0123456789")) fail("format specifier missing precision");
    field.precision = read_number(spec, at);
    if (field.precision > kMaxDigits) fail("precision too big: at most {}", kMaxDigits);
  }
  if (at < spec.size()) field.type = spec[at++];
  if (at != spec.size()) fail("invalid format specifier '{}'", spec);
  return field;
}

} // namespace

TaintedText write_field(Runtime& runtime, const Value& value, std::string_view spec) {
  if (spec.empty()) return runtime.str(value);
  const Field field = parse_field(spec);
  if (value.is_string()) {
    if (field.type != 0 && field.type != 's') fail("unknown format code '{}' for object of type 'str'", field.type);
    if (field.group) fail("cannot specify '{}' with 's'", field.group);
    if (field.sign != '-' || field.align == '=')
      fail("sign and '=' alignment are not allowed in string format specifier");
    return write_text(runtime, field, value.text());
  }
  if (value.is_number()) {
    if (value.is_integer() && (field.type == 0 || is_among(field.type, "dnxXob"))) {
      if (field.precision >= 0) fail("precision not allowed in integer format specifier");
      return write_integer(runtime, field, value);
    }
    if (value.is_integer() && field.type == 'c') {
      if (value.big() || value.integer() < 0 || value.integer() >= 0x110000) fail("'c' needs a number below 0x110000");
      std::string out;
      core::append_utf8(out, static_cast<char32_t>(value.integer()));
      return write_text(runtime, field, TaintedText(std::move(out), kCharactersAreData));
    }
    if (field.type != 0 && !is_among(field.type, "eEfFgG%n"))
      fail("unknown format code '{}' for object of type '{}'", field.type, value.type_name());
    return write_float(runtime, field, value.number());
  }
  fail("unsupported format string passed to {}.__format__", value.type_name());
}

} // namespace ridge::text::jinja
