// Regular expressions of JSON schema as grammars. The expression describes the string's value; the grammar describes
// how it is written: in JSON, every character that JSON escapes is written as its escape.
#include "core/error.h"
#include "text/grammar/grammar_syntax.h"
#include "text/grammar/json_schema_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ridge::text {

namespace {

using Ranges = std::vector<CodePointRange>;

constexpr int kMaxGroups = 60; // each level of the pattern becomes up to three levels of parentheses
constexpr uint32_t kMostCodePoint = 0x10ffff;

std::string gbnf_char(uint32_t c) { return c < 0x10000 ? fmt::format("\\u{:04X}", c) : fmt::format("\\U{:08X}", c); }

std::string json_escape(uint32_t c) {
  switch (c) {
  case '"': return "\\\"";
  case '\\': return "\\\\";
  case '\n': return "\\n";
  case '\r': return "\\r";
  case '\t': return "\\t";
  default: return fmt::format("\\u{:04x}", c);
  }
}

// One character of the set as it is, or an empty text where there is none but `never`.
std::string plain_char_from_set(const Ranges& set, char never) {
  std::string raw;
  const auto add = [&](uint32_t first, uint32_t last) {
    if (first <= last) raw += gbnf_char(first) + "-" + gbnf_char(last);
  };
  const auto cut = static_cast<uint32_t>(never);
  for (const CodePointRange& range : set) {
    if (cut < range.first || cut > range.last) {
      add(range.first, range.last);
    } else {
      if (cut > range.first) add(range.first, cut - 1);
      add(cut + 1, range.last);
    }
  }
  return raw.empty() ? "" : fmt::format("[{}]", raw);
}

// One character of the set in JSON notation; sets without characters give an empty text.
std::string json_char_from_set(const Ranges& set) {
  std::string raw, escaped;
  const auto add_raw = [&](uint32_t first, uint32_t last) {
    if (first > last) return;
    raw += gbnf_char(first);
    if (first < last) raw += fmt::format("-{}", gbnf_char(last));
  };
  for (const CodePointRange& range : set) {
    uint32_t next = range.first;
    for (uint32_t c = range.first; c <= std::min<uint32_t>(range.last, '\\'); ++c) {
      if (c >= 0x20 && c != '"' && c != '\\') continue;
      if (c > next) add_raw(next, c - 1);
      next = c + 1;
      escaped += (escaped.empty() ? "" : " | ") + gbnf_literal(json_escape(c));
    }
    add_raw(next, range.last);
  }
  if (raw.empty()) return escaped.empty() ? "" : fmt::format("({})", escaped);
  return escaped.empty() ? fmt::format("[{}]", raw) : fmt::format("([{}] | {})", raw, escaped);
}

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const StringNotation& notation, std::string_view where)
      : pattern_(pattern), notation_(notation), where_(where) {}

  std::string parse() {
    std::string result = parse_alternatives(0);
    if (pos_ < pattern_.size()) fail("`)` without `(`");
    return result;
  }

 private:
  bool at_end() const { return pos_ >= pattern_.size(); }
  bool is_next(std::string_view text) const { return pattern_.substr(pos_, text.size()) == text; }
  bool skip(std::string_view text) {
    if (!is_next(text)) return false;
    pos_ += text.size();
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw_error("{}: pattern, offset {}: {}", where_, pos_, message);
  }

  std::string parse_alternatives(int nesting) {
    if (nesting > kMaxGroups) fail(fmt::format("groups are nested deeper than {}", kMaxGroups));
    std::string result = parse_sequence(nesting);
    bool is_single = true;
    while (skip("|")) {
      result += fmt::format(" | {}", parse_sequence(nesting));
      is_single = false;
    }
    return is_single ? result : fmt::format("({})", result);
  }

  // ^ and $ are understood where they begin and end an alternative of the whole pattern.
  std::string parse_sequence(int nesting) {
    const bool is_outermost = nesting == 0;
    std::string result = is_outermost && !skip("^") ? fmt::format("{}*", notation_.any) : "";
    bool is_anchored = false;
    while (!at_end() && !is_next("|") && !is_next(")")) {
      if (is_outermost && is_next("$") && (pos_ + 1 == pattern_.size() || pattern_[pos_ + 1] == '|')) {
        ++pos_;
        is_anchored = true;
        break;
      }
      const std::string atom = parse_atom(nesting);
      const std::string count = parse_quantifier();
      if (!atom.empty()) result += (result.empty() ? "" : " ") + atom + count;
    }
    if (is_outermost && !is_anchored) result += fmt::format(" {}*", notation_.any);
    return result.empty() ? "\"\"" : result;
  }

  std::string parse_atom(int nesting) {
    const char c = pattern_[pos_];
    if (c == '(') return parse_group(nesting);
    if (c == '^' || c == '$') fail("`^` and `$` are supported only at the beginning and end of the whole pattern");
    if (c == '*' || c == '+' || c == '?') fail(fmt::format("`{}` has nothing before it to repeat", c));
    if (c == '[') return one_of(parse_class());
    if (c == '.') {
      ++pos_;
      return one_of(normalize_ranges({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}, true));
    }
    if (c == '\\') return one_of(parse_escape());
    const uint32_t code_point = parse_code_point();
    return one_of({{code_point, code_point}});
  }

  std::string one_of(const Ranges& set) const {
    if (set.empty()) fail("the character class is empty");
    std::string result = notation_.is_json ? json_char_from_set(set) : plain_char_from_set(set, notation_.never);
    if (result.empty()) fail(fmt::format("this model's calls have no way to write a `{}` there", notation_.never));
    return result;
  }

  std::string parse_group(int nesting) {
    ++pos_;
    if (skip("?")) {
      if (skip("<") && !is_next("=") && !is_next("!")) {
        while (!at_end() && !is_next(">")) ++pos_; // the group's name
        if (!skip(">")) fail("the group's name has no closing `>`");
      } else if (!skip(":")) {
        fail("look-around is not supported");
      }
    }
    std::string inner = parse_alternatives(nesting + 1);
    if (!skip(")")) fail("the group has no closing `)`");
    return fmt::format("({})", inner);
  }

  std::string parse_quantifier() {
    std::string count;
    if (is_next("*") || is_next("+") || is_next("?")) {
      count = pattern_[pos_++];
    } else if (is_next("{")) {
      const size_t close = pattern_.find('}', pos_);
      if (close == std::string_view::npos) fail("the repetition has no closing `}`");
      count = pattern_.substr(pos_, close + 1 - pos_);
      const std::string_view inside = std::string_view(count).substr(1, count.size() - 2);
      const size_t comma = std::min(inside.find(','), inside.size());
      const auto is_number = [](std::string_view t) {
        return !t.empty() && t.size() < 10 && t.find_first_not_of("0123456789") == std::string_view::npos;
      };
      const std::string_view min = inside.substr(0, comma);
      const std::string_view max = comma < inside.size() ? inside.substr(comma + 1) : min;
      if (!is_number(min) || !(max.empty() || is_number(max))) fail("a repetition has the form {2}, {2,} or {2,5}");
      if (!max.empty() && std::stoi(std::string(max)) < std::stoi(std::string(min))) {
        fail("the repetition's bounds are in the wrong order");
      }
      pos_ = close + 1;
    }
    if (!count.empty()) skip("?"); // lazy: the same language
    if (!count.empty() && (is_next("*") || is_next("+") || is_next("{"))) fail("a repetition of a repetition");
    return count;
  }

  uint32_t parse_code_point() {
    const auto first = static_cast<unsigned char>(pattern_[pos_++]);
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    uint32_t value = more == 0 ? first : first & (0x3fu >> more);
    for (int i = 0; i < more && !at_end(); ++i)
      value = value << 6 | (static_cast<unsigned char>(pattern_[pos_++]) & 0x3f);
    return std::min(value, kMostCodePoint);
  }

  uint32_t parse_hex(size_t digits) {
    const std::string_view text = pattern_.substr(pos_, digits);
    if (text.size() < digits || text.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      fail(fmt::format("expected {} hexadecimal digits", digits));
    }
    pos_ += digits;
    return static_cast<uint32_t>(std::stoul(std::string(text), nullptr, 16));
  }

  // The rest of \uHHHH; two of them may be one character.
  uint32_t parse_utf16() {
    const uint32_t high = parse_hex(4);
    if (high < 0xd800 || high > 0xdfff) return high;
    const uint32_t low = high < 0xdc00 && skip("\\u") ? parse_hex(4) : 0;
    if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair is no character");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  // An escape as a set: \d is several characters, \n is one.
  Ranges parse_escape(bool in_negated_class = false) {
    ++pos_;
    if (at_end()) fail("the pattern ends after `\\`");
    const char c = pattern_[pos_++];
    const auto one = [](uint32_t code_point) { return Ranges{{code_point, code_point}}; };
    const Ranges digit = {{'0', '9'}};
    const Ranges word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    // Engines differ in which blanks beyond ASCII \s matches, so neither \s nor \S gives any.
    const Ranges space = {{'\t', '\r'}, {' ', ' '}};
    const Ranges any_space = {{'\t', '\r'},     {0x1c, ' '},      {0x85, 0x85},     {0xa0, 0xa0},
                              {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                              {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    switch (c) {
    case 'd': return digit;
    case 'D': return normalize_ranges(digit, true);
    case 'w': return word;
    case 'W': return normalize_ranges(word, true);
    case 's': return in_negated_class ? any_space : space;
    case 'S': return normalize_ranges(in_negated_class ? space : any_space, true);
    case 'n': return one('\n');
    case 'r': return one('\r');
    case 't': return one('\t');
    case 'f': return one('\f');
    case 'v': return one('\v');
    case '0': return one(0);
    case 'x': return one(parse_hex(2));
    case 'u': return one(parse_utf16());
    default: break;
    }
    const bool is_word_char = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_word_char) fail(fmt::format("`\\{}` is not supported", c));
    --pos_;
    return one(parse_code_point());
  }

  Ranges parse_class() {
    ++pos_;
    const bool negated = skip("^");
    Ranges set;
    while (!is_next("]")) {
      if (at_end()) fail("the character class has no closing `]`");
      const Ranges item = parse_class_item(negated);
      const bool is_one = item.size() == 1 && item[0].first == item[0].last;
      if (is_one && is_next("-") && pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] != ']') {
        ++pos_;
        const Ranges last = parse_class_item(negated);
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < item[0].first) {
          fail("the range ends before it begins");
        }
        set.push_back({item[0].first, last[0].first});
      } else {
        set.insert(set.end(), item.begin(), item.end());
      }
    }
    ++pos_;
    return normalize_ranges(std::move(set), negated);
  }

  Ranges parse_class_item(bool negated) {
    if (is_next("\\b")) {
      pos_ += 2;
      return {{'\b', '\b'}};
    }
    if (is_next("\\")) return parse_escape(negated);
    const uint32_t code_point = parse_code_point();
    return {{code_point, code_point}};
  }

  const std::string_view pattern_;
  const StringNotation& notation_;
  const std::string_view where_;
  size_t pos_ = 0;
};

} // namespace

std::string gbnf_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
    case '"': result += "\\\""; break;
    case '\\': result += "\\\\"; break;
    case '\n': result += "\\n"; break;
    case '\r': result += "\\r"; break;
    case '\t': result += "\\t"; break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        result += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
      } else {
        result += c;
      }
    }
  }
  return result + "\"";
}

std::string gbnf_from_pattern(std::string_view pattern, const StringNotation& notation, std::string_view where) {
  return PatternParser(pattern, notation, where).parse();
}

} // namespace ridge::text
