#include "core/strings/find.h"
#include "core/strings/utf8.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

namespace {

// Applies `change` to the operand; markup stays markup if `keeps_markup`.
template <typename Change>
Value changed(Runtime& runtime, const Call& call, Change change, bool keeps_markup = true) {
  const TaintedText text = runtime.str(call.self);
  runtime.scan(text.size() * 8);
  return runtime.text(change(text), keeps_markup && call.self.is_markup());
}

// The text around a sigma decides its lower case.
TaintedText lowered(const TaintedText& text) {
  return text.map([&](std::string_view part) { return lower(part, text.bytes()); });
}
template <std::string (*change)(std::string_view)>
TaintedText whole(const TaintedText& text) {
  return TaintedText(change(text.bytes()), text.has_data());
}

Value markup_of(Runtime& runtime, const Call& call) { return runtime.text(runtime.str(call.self, true), true); }

// Words begin after white space and -([{<; the method differs.
std::string title_words(std::string_view text) {
  std::string out, word;
  const auto flush = [&] {
    if (word.empty()) return;
    const size_t first = decode_at(word, 0).bytes;
    out += upper(word.substr(0, first)) + lower(word.substr(first));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_at(text, at);
    const std::string_view piece = text.substr(at, point.bytes);
    if (is_space(point.value) || std::string_view("-([{<").find(piece) != std::string_view::npos) {
      flush();
      out += piece;
    } else {
      word += piece;
    }
    at += point.bytes;
  }
  flush();
  return out;
}

TaintedText replaced(Runtime& runtime, const TaintedText& tainted, std::string_view old, const TaintedText& with,
                     int64_t count) {
  const std::string_view text = tainted.bytes();
  TaintedText out;
  size_t at = 0;
  const auto keep = [&](size_t bytes) {
    runtime.allow(out.size() + bytes);
    out.append(tainted, at, bytes);
    at += bytes;
  };
  const auto insert = [&] {
    runtime.allow(out.held_bytes() + with.held_bytes());
    out += with;
  };
  const auto rest = [&] {
    out.append(tainted, at, text.size() - at);
    return std::move(out);
  };
  if (old.empty()) {
    while (count != 0) {
      insert();
      --count;
      if (at >= text.size()) return out;
      keep(decode_at(text, at).bytes);
    }
    return rest();
  }
  for (; count != 0; --count) {
    const size_t found = core::find(text, old, at);
    if (found == text.npos) break;
    keep(found - at);
    insert();
    at += old.size();
  }
  return rest();
}

Value replace(Runtime& runtime, const Call& call) {
  const TaintedText text = runtime.str(call.self);
  const TaintedText old = runtime.str(*call[0]);
  runtime.scan((text.size() + old.size()) * 8);
  const int64_t count = call.has(2) ? call.integer(2, -1) : -1;
  return runtime.text(replaced(runtime, text, old.bytes(), runtime.str(*call[1]), count));
}

Value indent(Runtime& runtime, const Call& call) {
  if (!call.self.is_string()) { // the filter first adds a newline
    if (call.self.is_undefined()) fail("{}", call.self.why_undefined());
    fail("indent: expected a string, got '{}'", call.self.type_name());
  }
  TaintedText prefix;
  if (call[0] && call[0]->is_string()) {
    prefix = call[0]->text();
  } else {
    const int64_t width = call.integer(0, 4);
    runtime.allow(static_cast<size_t>(std::max<int64_t>(width, 0)));
    prefix += std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = call.truth(1, false), blank = call.truth(2, false);
  TaintedText text = call.self.text();
  text += '\n';
  const auto lines = split_lines(text.bytes(), false);
  TaintedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += prefix;
    out += text.part(lines[i]);
    runtime.allow(out.size());
  }
  return runtime.text(std::move(out), call.self.is_markup());
}

Value truncate(Runtime& runtime, const Call& call) {
  const int64_t length = call.integer(0, 255), leeway = call.has(3) ? call.integer(3, 5) : 5;
  const TaintedText end = call[2] ? runtime.str(*call[2]) : TaintedText("...");
  const auto end_length = static_cast<int64_t>(code_point_count(end.bytes()));
  if (length < end_length) fail("truncate: expected length >= {}, got {}", end_length, length);
  if (leeway < 0) fail("truncate: expected leeway >= 0, got {}", leeway);
  if (runtime.length(call.self) <= length + std::min<int64_t>(leeway, INT64_MAX - length)) return call.self;
  if (!call.self.is_string()) fail("truncate: expected a string, got '{}'", call.self.type_name());
  const std::string& text = call.self.string();
  const size_t cut = code_point_offsets(text)[static_cast<size_t>(length - end_length)];
  std::string_view kept = std::string_view(text).substr(0, cut);
  if (!call.truth(1, false)) kept = split(kept, " ", 1, true)[0];
  TaintedText out = call.self.text().part(kept);
  out += end;
  return runtime.text(std::move(out), call.self.is_markup());
}

// textwrap: two letters (or a-b-) before, two letters after.
bool breaks_after_hyphen(const std::u32string& text, size_t end) {
  if (end < 3 || text[end - 1] != '-') return false;
  const auto is_letter = [&](size_t i) { return i < text.size() && is_word(text[i]) && !is_numeric(text[i]); };
  const auto is_near = [&](size_t i) {
    return is_word(text[i]) || std::u32string_view(U"!\"'&.,?").find(text[i]) != std::u32string_view::npos;
  };
  const bool before = (is_near(end - 2) && is_near(end - 3)) ||
                      (end >= 4 && is_word(text[end - 2]) && text[end - 3] == '-' && is_word(text[end - 4]));
  return before && is_letter(end) &&
         (is_letter(end + 1) || (end + 1 < text.size() && text[end + 1] == '-' && is_letter(end + 2)));
}

// textwrap.wrap of one line: splits at white space and after hyphens between letters; cuts long pieces.
void wrap_line(Runtime& runtime, std::string_view line, size_t width, bool cut_long, bool cut_hyphens,
               std::vector<std::string>& out) {
  std::vector<std::u32string> pieces;
  std::u32string points;
  for (size_t at = 0; at < line.size(); at += decode_at(line, at).bytes) points += decode_at(line, at).value;
  for (size_t at = 0; at < points.size();) {
    size_t end = at + 1;
    const bool space = is_space(points[at]);
    while (end < points.size() && is_space(points[end]) == space) {
      const bool hyphen = cut_hyphens && !space && breaks_after_hyphen(points, end);
      if (hyphen) break;
      ++end;
    }
    pieces.push_back(points.substr(at, end - at));
    at = end;
  }
  const auto is_blank = [](const std::u32string& piece) { return is_space(piece[0]); };
  size_t next = 0;
  while (next < pieces.size()) {
    runtime.spend();
    if (is_blank(pieces[next]) && !out.empty() && ++next >= pieces.size()) break;
    std::u32string row;
    std::vector<size_t> lengths;
    while (next < pieces.size() && row.size() + pieces[next].size() <= width) {
      row += pieces[next];
      lengths.push_back(pieces[next].size());
      ++next;
    }
    if (next < pieces.size() && pieces[next].size() > width) {
      const size_t room = width > row.size() ? width - row.size() : 0;
      if (cut_long) {
        row += pieces[next].substr(0, std::max<size_t>(room, row.empty() ? 1 : 0));
        pieces[next].erase(0, std::max<size_t>(room, row.size() == 1 && room == 0 ? 1 : 0));
        if (pieces[next].empty()) ++next;
      } else if (row.empty()) {
        row = pieces[next++];
      }
    }
    while (!row.empty() && is_space(row.back())) row.pop_back();
    if (row.empty()) continue;
    std::string bytes;
    for (const char32_t c : row) core::append_utf8(bytes, c);
    out.push_back(std::move(bytes));
  }
}

Value wordwrap(Runtime& runtime, const Call& call) {
  if (!call.self.is_string()) fail("wordwrap: expected a string, got '{}'", call.self.type_name());
  const int64_t width = call.integer(0, 79);
  if (width <= 0) fail("wordwrap: invalid width {}", width);
  const TaintedText separator = call.has(2) ? runtime.str(*call[2]) : TaintedText("\n");
  const std::string& text = call.self.string();
  runtime.spend(static_cast<int64_t>(text.size()));
  TaintedText out;
  bool is_first = true;
  for (const std::string_view line : split_lines(text, false)) {
    std::vector<std::string> rows;
    wrap_line(runtime, line, static_cast<size_t>(width), call.truth(1, true), call.truth(3, true), rows);
    if (rows.empty()) rows.emplace_back();
    for (const std::string& row : rows) {
      if (!std::exchange(is_first, false)) out += separator;
      out += row;
      runtime.allow(out.size());
    }
  }
  if (call.self.text().has_data()) out.mark_all();
  return runtime.text(std::move(out));
}

Value wordcount(Runtime& runtime, const Call& call) {
  const std::string text = runtime.str(call.self).bytes();
  runtime.scan(text.size() * 8);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) {
    const bool word = is_word(decode_at(text, at).value);
    words += word && !inside;
    inside = word;
  }
  return words;
}

Value striptags(Runtime& runtime, const Call& call) {
  const TaintedText tainted = runtime.str(call.self);
  std::string text = tainted.bytes();
  for (const auto& [open, close] : {std::pair("<!--", "-->"), std::pair("<", ">")}) {
    std::string out;
    size_t at = 0;
    for (size_t start; (start = text.find(open, at)) != text.npos;) {
      const size_t end = text.find(close, start);
      if (end == text.npos) break;
      out.append(text, at, start - at);
      at = end + std::string_view(close).size();
    }
    text = out + text.substr(at);
  }
  std::string out;
  for (const std::string_view word : split(text, std::nullopt, -1, false)) (out += out.empty() ? "" : " ") += word;
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  TaintedText plain(std::move(out), tainted.has_data());
  for (const auto& [entity, meaning] : kEntities)
    plain = replaced(runtime, plain, entity, TaintedText(std::string(meaning), tainted.has_data()), -1);
  return runtime.text(std::move(plain));
}

template <bool is_query>
std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view(is_query ? "_.-~" : "_.-~/").find(c) != std::string_view::npos)
      out += c;
    else if (is_query && c == ' ')
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value urlencode(Runtime& runtime, const Call& call) {
  if (call.self.is_string() || !(call.self.list() || call.self.is_dict() || call.self.is_undefined()))
    return runtime.text(runtime.str(call.self).map(percent_encoded<false>));
  TaintedText out;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += runtime.str(key).map(percent_encoded<true>);
    out += '=';
    out += runtime.str(value).map(percent_encoded<true>);
    runtime.allow(out.size());
  };
  if (const Dict* dict = call.self.dict()) {
    for (const auto& [key, value] : dict->entries) pair(key, value);
  } else {
    for (const Value& item : runtime.iterate(call.self)) {
      const Values parts = runtime.iterate(item);
      if (parts.size() != 2) fail("urlencode: expected pairs");
      pair(parts[0], parts[1]);
    }
  }
  return runtime.text(std::move(out));
}

Value xmlattr(Runtime& runtime, const Call& call) {
  if (!call.self.is_dict()) fail("xmlattr: expected a mapping, got '{}'", call.self.type_name());
  TaintedText out;
  for (const auto& [key, value] : call.self.dict()->entries) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) fail("xmlattr: attribute names are strings, not '{}'", key.type_name());
    const std::string& name = key.string();
    if (name.find_first_of(" \t\n\r\f\v/>=") != name.npos)
      fail("Invalid character in attribute name: {}", string_repr(name));
    if (!out.empty() || call.truth(0, true)) out += ' ';
    out += key.text().map(escape_html);
    out += "=\"";
    out += runtime.str(value, true);
    out += '"';
    runtime.allow(out.size());
  }
  return runtime.text(std::move(out));
}

Value tojson(Runtime& runtime, const Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.truth(0, false);
  if (call.has(1)) {
    if (call[1]->is_string()) {
      style.indent = call[1]->text();
    } else {
      const int64_t width = std::max<int64_t>(0, call.integer(1, 0));
      runtime.allow(static_cast<size_t>(width));
      style.indent = TaintedText(std::string(static_cast<size_t>(width), ' '));
    }
    style.item_separator = TaintedText(",");
  }
  if (call.has(2)) {
    const Values separators = runtime.iterate(*call[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      fail("tojson: separators are two strings");
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  style.sort_keys = call.truth(3, false);
  return runtime.text(to_json(call.self, style, runtime.max_value_bytes()));
}

Value format_filter(Runtime& runtime, const Call& call) {
  if (!call.rest.positional.empty() && !call.rest.keyword.empty())
    fail("format: can't handle positional and keyword arguments at the same time");
  Value arguments;
  if (!call.rest.keyword.empty()) {
    Dict dict;
    for (const auto& [name, value] : call.rest.keyword) dict.set(keyword_text(name), value);
    arguments = runtime.dict(std::move(dict));
  } else {
    arguments = runtime.list(call.rest.positional, List::Kind::tuple);
  }
  return runtime.binary("%", runtime.soft_str(call.self), arguments);
}

Value centered(Runtime& runtime, const Call& call) {
  Arguments arguments{{call[0] ? *call[0] : Value(int64_t{80})}, {}};
  return runtime.call(runtime.attribute(runtime.soft_str(call.self), "center"), arguments);
}

constexpr Builtin kTextFilters[] = {
    {"upper", "",
     [](Runtime& r, const Call& c) { return changed(r, c, [](const TaintedText& text) { return text.map(upper); }); }},
    {"lower", "", [](Runtime& r, const Call& c) { return changed(r, c, lowered); }},
    {"capitalize", "", [](Runtime& r, const Call& c) { return changed(r, c, whole<capitalize>); }},
    {"title", "", [](Runtime& r, const Call& c) { return changed(r, c, whole<title_words>, false); }},
    {"trim", "chars?",
     [](Runtime& r, const Call& c) {
       std::optional<std::string_view> chars;
       if (c.has(0)) chars = c.string(0);
       return changed(r, c, [&](const TaintedText& text) { return text.part(strip(text.bytes(), true, true, chars)); });
     }},
    {"string", "", [](Runtime& r, const Call& c) { return r.soft_str(c.self); }},
    {"safe", "", [](Runtime& r, const Call& c) { return r.text(r.str(c.self), true); }},
    {"escape", "", markup_of},
    {"e", "", markup_of},
    {"forceescape", "", [](Runtime& r, const Call& c) { return r.text(r.str(c.self).map(escape_html), true); }},
    {"replace", "old new count?", replace},
    {"indent", "width? first? blank?", indent},
    {"truncate", "length? killwords? end? leeway?", truncate},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", wordwrap},
    {"wordcount", "", wordcount},
    {"center", "width?", centered},
    {"format", "* **", format_filter},
    {"striptags", "", striptags},
    {"urlencode", "", urlencode},
    {"xmlattr", "autospace?", xmlattr},
    {"pprint", "", [](Runtime& r, const Call& c) { return r.text(r.repr(c.self)); }},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", tojson},
};

} // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

} // namespace ridge::text::jinja
