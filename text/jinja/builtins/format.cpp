// 'text' % values; text.format(values).
#include "core/strings/utf8.h"
#include "text/jinja/builtins/format_field.h"
#include "text/jinja/integers.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <cmath>

namespace ridge::text::jinja {

namespace {

// Specifications may contain fields, one level deep.
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
    size_t end = 0;
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
    Value value = lookup(name); // nested fields are numbered after it
    const TaintedText spec = end < field.size() ? run(tainted.part(field.substr(end + 1)), depth + 1) : TaintedText();
    if (conversion) value = Value(conversion == 's' ? runtime_.str(value) : runtime_.repr(value));
    if (escapes_ && value.is_markup() && !spec.empty()) fail("unsupported format specification for Markup");
    TaintedText text = write_field(runtime_, value, spec.bytes());
    if (spec.has_data()) text.mark_all(); // the specification contains the fill character
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
  bool escapes_;
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
        if (!value.is_integer() && !is_among(type, "diu"))
          fail("%{} format: an integer is required, not {}", type, value.type_name());
        if (!value.is_integer() && !std::isfinite(value.number()))
          fail("cannot convert float {} to integer", float_repr(value.number()));
        out += write_integer(runtime, field, value.is_integer() ? value : integer_of(value.number()));
      } else {
        out += write_float(runtime, field, value.number());
      }
    }
    runtime.allow(out.size());
  }
  // Python ignores unused subscriptable arguments.
  const bool may_be_unused =
      arguments.is_dict() || arguments.is_undefined() || (arguments.list() && arguments.list()->is_sequence());
  const bool all_used = is_tuple ? next >= arguments.list()->items.size() : next > 0 || used_names || may_be_unused;
  if (!all_used) fail("not all arguments converted during string formatting");
  return runtime.text(std::move(out), format.is_markup());
}

} // namespace ridge::text::jinja
