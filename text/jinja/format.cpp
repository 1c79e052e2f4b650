// Python's two ways to format text: 'text' % values, and text.format(values). Both come down to one field writer.
#include "core/strings/utf8.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <cmath>

namespace ridge::text::jinja {

namespace {

constexpr int64_t kMaxDigits = 1000;      // of a field's precision
constexpr bool kCharactersAreData = true; // those made of numbers (%c), because numbers carry no taint

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

// Digits of the whole part in groups: of three, or of four for _ in other bases.
std::string grouped(std::string_view digits, char separator, size_t size) {
  const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out += digits.substr(whole);
}

TaintedText write_integer(Runtime& runtime, const Field& field, int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string prefix = value < 0 ? "-" : field.sign == '-' ? "" : std::string(1, field.sign);
  std::string digits;
  switch (field.type) {
  case 'x': digits = fmt::format("{:x}", magnitude); break;
  case 'X': digits = fmt::format("{:X}", magnitude); break;
  case 'o': digits = fmt::format("{:o}", magnitude); break;
  case 'b': digits = fmt::format("{:b}", magnitude); break;
  default: digits = std::to_string(magnitude);
  }
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
    default: // as str() prints it, or as g that keeps one decimal
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

bool is_among(char c, std::string_view set) { return c != 0 && set.find(c) != set.npos; }

// Reads a number at `at`; digits beyond any sense are refused.
int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > int64_t{1} << 40) fail("too many digits in format string");
  }
  return value;
}

// The part of a replacement field after its colon.
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
    if (value.is_integral() && (field.type == 0 || is_among(field.type, "dnxXob"))) {
      if (field.precision >= 0) fail("precision not allowed in integer format specifier");
      return write_integer(runtime, field, value.integer());
    }
    if (value.is_integral() && field.type == 'c') {
      if (value.integer() < 0 || value.integer() >= 0x110000) fail("'c' needs a number below 0x110000");
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

// text.format: reads replacement fields, which may contain one more level of fields in their specifications.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments, bool escapes)
      : runtime_(runtime), arguments_(arguments), escapes_(escapes) {}

  TaintedText run(const TaintedText& format, int depth) {
    if (depth > 2) fail("Max string recursion exceeded");
    const std::string_view text = format.bytes();
    TaintedText out;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
        out.append(format, at, 1);
        at += 2;
      } else if (c == '}') {
        fail("Single '}}' encountered in format string");
      } else if (c == '{') {
        size_t end = at + 1;
        for (int open = 1; end < text.size(); ++end) {
          open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
          if (open == 0) break;
        }
        if (end >= text.size()) fail("expected '}}' before end of string");
        out += replacement(format.part(text.substr(at + 1, end - at - 1)), depth);
        runtime_.allow(out.size());
        at = end + 1;
      } else {
        const size_t end = std::min(text.find_first_of("{}", at), text.size());
        out.append(format, at, end - at);
        at = end;
      }
    }
    return out;
  }

 private:
  TaintedText replacement(const TaintedText& tainted, int depth) {
    const std::string_view field = tainted.bytes();
    size_t end = 0; // of the name: a bracket may contain anything
    while (end < field.size() && field[end] != ':' && field[end] != '!') {
      if (field[end] == '[') end = std::min(field.find(']', end), field.size() - 1);
      ++end;
    }
    const std::string_view name = field.substr(0, end);
    char conversion = 0;
    if (end < field.size() && field[end] == '!') {
      conversion = end + 1 < field.size() ? field[end + 1] : '\0';
      end += 2;
      if (!is_among(conversion, "rsa") || (end < field.size() && field[end] != ':'))
        fail("expected ':' after conversion specifier");
    }
    Value value = lookup(name); // before the fields inside the specification, which are numbered after it
    const TaintedText spec = end < field.size() ? run(tainted.part(field.substr(end + 1)), depth + 1) : TaintedText();
    if (conversion) value = Value(conversion == 's' ? runtime_.str(value) : runtime_.repr(value));
    if (escapes_ && value.is_markup() && !spec.empty()) fail("unsupported format specification for Markup");
    TaintedText text = write_field(runtime_, value, spec.bytes());
    if (spec.has_data()) text.mark_all(); // the specification names the character to fill with
    return escapes_ && !value.is_markup() ? text.map(escape_html) : text;
  }

  Value lookup(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    Value value;
    if (first.empty() || first.find_first_not_of("0123456789") == first.npos) {
      if (first.empty() != (numbering_ != Numbering::manual) && numbering_ != Numbering::unknown)
        fail("cannot switch between manual field specification and automatic field numbering");
      numbering_ = first.empty() ? Numbering::automatic : Numbering::manual;
      size_t at = 0;
      const auto index = static_cast<size_t>(first.empty() ? next_++ : read_number(first, at));
      if (index >= arguments_.positional.size())
        fail("Replacement index {} out of range for positional args tuple", index);
      value = arguments_.positional[index];
    } else {
      bool found = false;
      for (const auto& [key, item] : arguments_.keyword)
        if (key == first) value = item, found = true;
      if (!found) fail("format: no argument named '{}'", first);
    }
    while (end < name.size()) {
      if (name[end] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", end + 1), name.size());
        value = runtime_.attribute(value, std::string(name.substr(end + 1, stop - end - 1)));
        end = stop;
      } else {
        const size_t stop = name.find(']', end);
        if (name[end] != '[' || stop == name.npos) fail("expected '}}' before end of string");
        const std::string_view key = name.substr(end + 1, stop - end - 1);
        size_t at = 0;
        const bool is_number = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
        value = runtime_.item(value, is_number ? Value(read_number(key, at)) : Value(key));
        end = stop + 1;
      }
    }
    return value;
  }

  enum class Numbering { unknown, automatic, manual };
  Runtime& runtime_;
  const Arguments& arguments_;
  bool escapes_; // what goes into the text
  Numbering numbering_ = Numbering::unknown;
  int64_t next_ = 0;
};

} // namespace

Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  return runtime.text(BraceFormatter(runtime, arguments, format.is_markup()).run(format.text(), 1), format.is_markup());
}

Value format_percent(Runtime& runtime, const Value& format, const Value& arguments) {
  const std::string_view text = format.string();
  const bool is_tuple = arguments.list() && arguments.list()->kind == List::Kind::tuple;
  size_t next = 0;
  bool used_names = false;
  const auto take = [&]() -> Value {
    if (is_tuple && next < arguments.list()->items.size()) return arguments.list()->items[next++];
    if (is_tuple || next > 0) fail("not enough arguments for format string");
    ++next;
    return arguments;
  };
  TaintedText out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      const size_t end = std::min(text.find('%', at), text.size());
      out.append(format.text(), at, end - at);
      at = end;
      continue;
    }
    ++at;
    if (at < text.size() && text[at] == '%') {
      out.append(format.text(), at++, 1);
      continue;
    }
    std::optional<Value> named;
    if (at < text.size() && text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == text.npos) fail("incomplete format key");
      if (!arguments.is_dict()) fail("format requires a mapping");
      const Value* found = arguments.dict()->find(text.substr(at + 1, close - at - 1));
      if (!found) fail("format: no key '{}'", text.substr(at + 1, close - at - 1));
      named = *found;
      used_names = true;
      at = close + 1;
    }
    Field field;
    field.align = '>';
    const auto next_char = [&] { return at < text.size() ? text[at] : '\0'; };
    bool left = false, zero = false;
    for (; is_among(next_char(), "-+ #0"); ++at) {
      if (text[at] == '-') left = true;
      if (text[at] == '0') zero = true;
      if (text[at] == '#') field.is_alternate = true;
      if (text[at] == '+' || (text[at] == ' ' && field.sign != '+')) field.sign = text[at];
    }
    const auto number = [&]() -> int64_t {
      if (next_char() != '*') return read_number(text, at);
      ++at;
      const Value star = take();
      if (!star.is_integral()) fail("* wants int");
      return star.integer();
    };
    field.width = number();
    if (field.width < 0) {
      left = true;
      field.width = field.width == INT64_MIN ? INT64_MAX : -field.width;
    }
    if (next_char() == '.') {
      ++at;
      field.precision = std::max<int64_t>(0, number());
      if (field.precision > kMaxDigits) fail("precision too big: at most {}", kMaxDigits);
    }
    while (is_among(next_char(), "hlL")) ++at;
    if (at >= text.size()) fail("incomplete format");
    const char type = text[at++];
    if (!is_among(type, "sradiuxXoeEfFgGc"))
      fail("unsupported format character '{}'", text.substr(at - 1, decode_at(text, at - 1).bytes));
    const Value value = named ? *named : take();
    if (left) field.align = '<';
    field.type = type;
    if (is_among(type, "sra")) {
      const Value shown = type == 's' ? value : Value(runtime.repr(value));
      out += write_text(runtime, field, runtime.str(shown, format.is_markup()));
    } else if (format.is_markup() && is_among(type, "cxXo")) {
      fail("%{} format: markup takes no characters, and numbers as decimals only", type);
    } else if (type == 'c') {
      std::string character;
      if (value.is_string() && code_point_count(value.string()) == 1)
        character = value.string();
      else if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000)
        core::append_utf8(character, static_cast<char32_t>(value.integer()));
      else
        fail("%c requires int or char");
      out += write_text(runtime, field, TaintedText(std::move(character), kCharactersAreData));
    } else {
      if (value.is_undefined()) fail("{}", value.why_undefined());
      if (!value.is_number()) fail("%{} format: a number is required, not {}", type, value.type_name());
      if (zero && !left) field.fill = "0", field.align = '=';
      if (is_among(type, "diu")) field.type = 'd';
      if (is_among(type, "diuxXo")) {
        if (!value.is_integral() && !is_among(type, "diu"))
          fail("%{} format: an integer is required, not {}", type, value.type_name());
        if (std::abs(value.number()) >= 9.2e18 || std::isnan(value.number()))
          fail("integer overflow: the number does not fit 64 bits");
        out +=
            write_integer(runtime, field, value.is_integral() ? value.integer() : static_cast<int64_t>(value.number()));
      } else {
        out += write_float(runtime, field, value.number());
      }
    }
    runtime.allow(out.size());
  }
  // Python lets what can be subscripted go unused.
  const bool may_be_unused =
      arguments.is_dict() || arguments.is_undefined() || (arguments.list() && arguments.list()->is_sequence());
  const bool all_used = is_tuple ? next >= arguments.list()->items.size() : next > 0 || used_names || may_be_unused;
  if (!all_used) fail("not all arguments converted during string formatting");
  return runtime.text(std::move(out), format.is_markup());
}

} // namespace ridge::text::jinja
