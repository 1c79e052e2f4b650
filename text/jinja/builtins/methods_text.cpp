#include "core/strings/find.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

namespace {

const TaintedText& self_tainted(Runtime& runtime, const Call& call) {
  runtime.scan(call.self.string().size() * 8);
  return call.self.text();
}
const std::string& self_text(Runtime& runtime, const Call& call) { return self_tainted(runtime, call).bytes(); }

Value same_kind(Runtime& runtime, const Call& call, TaintedText text) {
  return runtime.text(std::move(text), call.self.is_markup());
}
Value part_of_self(Runtime& runtime, const Call& call, std::string_view view) {
  return same_kind(runtime, call, call.self.text().part(view));
}

// For context-free changes.
template <std::string (*change)(std::string_view)>
Value mapped(Runtime& runtime, const Call& call) {
  return same_kind(runtime, call, self_tainted(runtime, call).map(change));
}
// For changes that depend on the surrounding text.
template <std::string (*change)(std::string_view, std::string_view)>
Value mapped_within(Runtime& runtime, const Call& call) {
  const TaintedText& text = self_tainted(runtime, call);
  return same_kind(runtime, call, text.map([&](std::string_view part) { return change(part, text.bytes()); }));
}
// For changes that depend on the preceding text.
template <std::string (*change)(std::string_view)>
Value mapped_whole(Runtime& runtime, const Call& call) {
  const TaintedText& text = self_tainted(runtime, call);
  return same_kind(runtime, call, TaintedText(change(text.bytes()), text.has_data()));
}

template <bool left, bool right>
Value stripped(Runtime& runtime, const Call& call) {
  std::optional<std::string_view> chars;
  if (call.has(0)) chars = call.string(0);
  return part_of_self(runtime, call, strip(self_text(runtime, call), left, right, chars));
}

template <bool from_right>
Value split_text(Runtime& runtime, const Call& call) {
  std::optional<std::string_view> separator;
  if (call.has(0)) separator = call.string(0);
  Values parts;
  for (const std::string_view part : split(self_text(runtime, call), separator, call.integer(1, -1), from_right)) {
    runtime.allow((parts.size() + 1) * sizeof(Value));
    parts.push_back(part_of_self(runtime, call, part));
  }
  return runtime.list(std::move(parts));
}

Value split_into_lines(Runtime& runtime, const Call& call) {
  Values lines;
  for (const std::string_view line : split_lines(self_text(runtime, call), call.truth(0, false))) {
    runtime.allow((lines.size() + 1) * sizeof(Value));
    lines.push_back(part_of_self(runtime, call, line));
  }
  return runtime.list(std::move(lines));
}

struct Part {
  std::string_view bytes;
  int64_t start;
  bool is_valid; // start ≤ length
};
Part part_of(std::string_view text, const Call& call, size_t start_at) {
  if (!call.has(start_at) && !call.has(start_at + 1)) return {text, 0, true};
  const std::vector<size_t> offsets = code_point_offsets(text);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto bound = [&](size_t i, int64_t absent) {
    const int64_t index = call.has(i) ? call.integer(i, 0) : absent;
    return index < 0 ? std::max<int64_t>(0, index + size) : index;
  };
  const int64_t start = bound(start_at, 0), end = std::min(bound(start_at + 1, size), size);
  if (start > end) return {{}, start, false};
  return {text.substr(offsets[static_cast<size_t>(start)],
                      offsets[static_cast<size_t>(end)] - offsets[static_cast<size_t>(start)]),
          start, true};
}

template <bool at_end>
Value has_affix(Runtime& runtime, const Call& call) {
  const Part part = part_of(self_text(runtime, call), call, 1);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string())
      fail("startswith and endswith take a string or a tuple of strings, not {}", affix.type_name());
    runtime.scan(affix.string().size());
    return part.is_valid && (at_end ? part.bytes.ends_with(affix.string()) : part.bytes.starts_with(affix.string()));
  };
  const List* several = call[0]->list();
  if (!several || several->kind != List::Kind::tuple) return matches(*call[0]);
  return std::any_of(several->items.begin(), several->items.end(), matches);
}

template <bool from_right, bool must_exist>
Value find_text(Runtime& runtime, const Call& call) {
  const Part part = part_of(self_text(runtime, call), call, 1);
  const size_t at = !part.is_valid ? part.bytes.npos
                    : from_right   ? core::find_last(part.bytes, call.string(0))
                                   : core::find(part.bytes, call.string(0));
  if (at != part.bytes.npos) return part.start + static_cast<int64_t>(code_point_count(part.bytes.substr(0, at)));
  if (must_exist) fail("substring not found");
  return int64_t{-1};
}

Value count_text(Runtime& runtime, const Call& call) {
  const Part part = part_of(self_text(runtime, call), call, 1);
  const std::string_view wanted = call.string(0);
  if (!part.is_valid) return int64_t{0};
  if (wanted.empty()) return static_cast<int64_t>(code_point_count(part.bytes)) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = core::find(part.bytes, wanted, at)) != part.bytes.npos; at += wanted.size()) ++count;
  return count;
}

Value replace_text(Runtime& runtime, const Call& call) {
  call.string(0), call.string(1);
  const bool is_markup = call.self.is_markup();
  Arguments arguments{{*call[0], is_markup ? Value(runtime.str(*call[1], true)) : *call[1]}, {}};
  if (call.has(2)) arguments.positional.push_back(Value(std::max<int64_t>(-1, call.integer(2, -1))));
  const Value plain = runtime.apply_filter("replace", call.self, arguments);
  return is_markup ? runtime.text(plain.text(), true) : plain;
}

Value join_text(Runtime& runtime, const Call& call) {
  const TaintedText& between = self_tainted(runtime, call);
  TaintedText out;
  bool is_first = true;
  int64_t i = 0;
  for (const Value& item : runtime.iterate(*call[0])) {
    if (!item.is_string() && !call.self.is_markup())
      fail("sequence item {}: expected str instance, {} found", i, item.type_name());
    if (!std::exchange(is_first, false)) out += between;
    out += runtime.str(item, call.self.is_markup());
    runtime.allow(out.size());
    ++i;
  }
  return same_kind(runtime, call, std::move(out));
}

template <bool from_right>
Value partition(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  const std::string_view separator = call.string(0);
  if (separator.empty()) fail("empty separator");
  const size_t at = from_right ? core::find_last(text, separator) : core::find(text, separator);
  const auto parts = [&](std::string_view before, std::string_view middle, std::string_view after) {
    return runtime.list(
        {part_of_self(runtime, call, before), part_of_self(runtime, call, middle), part_of_self(runtime, call, after)},
        List::Kind::tuple);
  };
  if (at == text.npos) return from_right ? parts("", "", text) : parts(text, "", "");
  const std::string_view whole = text;
  return parts(whole.substr(0, at), whole.substr(at, separator.size()), whole.substr(at + separator.size()));
}

enum class Side { left, right, both };

template <Side text_side>
Value padded(Runtime& runtime, const Call& call) {
  const TaintedText& text = self_tainted(runtime, call);
  TaintedText fill(" ");
  if (call[1]) call.string(1), fill = runtime.str(*call[1], call.self.is_markup());
  if (code_point_count(fill.bytes()) != 1) fail("the fill character must be exactly one character long");
  const int64_t margin = call.integer(0, 0) - static_cast<int64_t>(code_point_count(text.bytes()));
  if (margin <= 0) return call.self;
  size_t bytes;
  runtime.allow(__builtin_mul_overflow(static_cast<size_t>(margin), fill.size(), &bytes) ? SIZE_MAX : bytes);
  // Python's rule for odd margins
  const int64_t left = text_side == Side::left    ? 0
                       : text_side == Side::right ? margin
                                                  : margin / 2 + (margin & call.integer(0, 0) & 1);
  TaintedText out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < margin; ++i) out += fill;
  return same_kind(runtime, call, std::move(out));
}

Value zero_fill(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  const int64_t margin = call.integer(0, 0) - static_cast<int64_t>(code_point_count(text));
  if (margin <= 0) return call.self;
  runtime.allow(static_cast<size_t>(margin));
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  TaintedText out;
  out.append(call.self.text(), 0, sign);
  out += std::string(static_cast<size_t>(margin), '0');
  out.append(call.self.text(), sign, text.size() - sign);
  return same_kind(runtime, call, std::move(out));
}

Value expand_tabs(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  const int64_t size = call.integer(0, 8);
  TaintedText out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    if (point.value == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      runtime.allow(out.size() + static_cast<size_t>(spaces));
      out += std::string(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out.append(call.self.text(), at, point.bytes);
      column = point.value == '\n' || point.value == '\r' ? 0 : column + 1;
    }
    at += point.bytes;
  }
  return same_kind(runtime, call, std::move(out));
}

template <bool (*holds)(char32_t)>
Value every(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes)
    if (!holds(decode_at(text, at).value)) return false;
  return !text.empty();
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c); }

Value is_titled(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  bool inside = false, any = false;
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) {
    const char32_t c = decode_at(text, at).value;
    const bool begins = is_upper(c) || is_title(c);
    if (begins ? inside : is_lower(c) && !inside) return false;
    inside = begins || is_lower(c);
    any |= inside;
  }
  return any;
}

Value is_identifier(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) {
    const char32_t c = decode_at(text, at).value;
    if (!(is_alpha(c) || c == '_' || (at > 0 && is_decimal(c)))) return false;
  }
  return !text.empty();
}

Value is_ascii(Runtime& runtime, const Call& call) {
  const std::string& text = self_text(runtime, call);
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

template <bool at_end>
Value without_affix(Runtime& runtime, const Call& call) {
  const std::string_view text = self_text(runtime, call), affix = call.string(0);
  if (at_end ? !text.ends_with(affix) : !text.starts_with(affix)) return call.self;
  return part_of_self(runtime, call, at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

Value test_of(Runtime& runtime, const Call& call, const char* test) {
  Arguments none;
  return runtime.apply_test(test, call.self, none);
}

constexpr Builtin kTextMethods[] = {
    {"strip", "chars?", stripped<true, true>},
    {"lstrip", "chars?", stripped<true, false>},
    {"rstrip", "chars?", stripped<false, true>},
    {"split", "sep? maxsplit?", split_text<false>},
    {"rsplit", "sep? maxsplit?", split_text<true>},
    {"splitlines", "keepends?", split_into_lines},
    {"startswith", "prefix start? end?", has_affix<false>},
    {"endswith", "suffix start? end?", has_affix<true>},
    {"removeprefix", "prefix", without_affix<false>},
    {"removesuffix", "suffix", without_affix<true>},
    {"replace", "old new count?", replace_text},
    {"join", "iterable", join_text},
    {"format", "* **", [](Runtime& r, const Call& c) { return self_text(r, c), format_braces(r, c.self, c.rest); }},
    {"upper", "", mapped<upper>},
    {"lower", "", mapped_within<lower>},
    {"casefold", "", mapped<case_fold>},
    {"title", "", mapped_whole<title>},
    {"capitalize", "", mapped_whole<capitalize>},
    {"swapcase", "", mapped_within<swap_case>},
    {"find", "sub start? end?", find_text<false, false>},
    {"rfind", "sub start? end?", find_text<true, false>},
    {"index", "sub start? end?", find_text<false, true>},
    {"rindex", "sub start? end?", find_text<true, true>},
    {"count", "sub start? end?", count_text},
    {"partition", "sep", partition<false>},
    {"rpartition", "sep", partition<true>},
    {"center", "width fillchar?", padded<Side::both>},
    {"ljust", "width fillchar?", padded<Side::left>},
    {"rjust", "width fillchar?", padded<Side::right>},
    {"zfill", "width", zero_fill},
    {"expandtabs", "tabsize?", expand_tabs},
    {"isalpha", "", every<is_alpha>},
    {"isdigit", "", every<is_digit>},
    {"isdecimal", "", every<is_decimal>},
    {"isnumeric", "", every<is_numeric>},
    {"isalnum", "", every<is_alphanumeric>},
    {"isspace", "", every<is_space>},
    {"isascii", "", is_ascii},
    {"istitle", "", is_titled},
    {"isidentifier", "", is_identifier},
    {"isprintable", "",
     [](Runtime& r, const Call& c) -> Value { return c.self.string().empty() || every<is_printable>(r, c).truth(); }},
    {"isupper", "", [](Runtime& r, const Call& c) { return test_of(r, c, "upper"); }},
    {"islower", "", [](Runtime& r, const Call& c) { return test_of(r, c, "lower"); }},
};

} // namespace

std::span<const Builtin> text_methods() { return kTextMethods; }

} // namespace ridge::text::jinja
