#include "text/grammar/json_schema/string_pattern.h"

#include "core/error.h"
#include "text/grammar/grammar_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ridge::text {
namespace {

using PatternKind = PatternNode::Kind;

constexpr int kMaxGroups = 60;

PatternNode any_text() {
  PatternNode any = {.kind = PatternKind::one_of, .characters = {kAllCodePoints}};
  return {.kind = PatternKind::repeat, .min = 0, .max = PatternNode::kUnlimited, .children = {std::move(any)}};
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : pattern_(pattern) {}

  StringPattern parse() {
    StringPattern result;
    result.whole = parse_alternatives(Part::whole, 0);
    if (pos_ < pattern_.size()) fail("`)` without `(`");
    if (!aheads_.empty() && result.whole.kind == PatternKind::alternatives)
      fail("look-ahead in one of several alternatives");
    result.aheads = std::move(aheads_);
    return result;
  }

 private:
  enum class Part { whole, ahead, group };

  bool at_end() const { return pos_ >= pattern_.size(); }
  bool is_next(std::string_view text) const { return pattern_.substr(pos_, text.size()) == text; }
  bool skip(std::string_view text) {
    if (!is_next(text)) return false;
    pos_ += text.size();
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const { throw_error("pattern, offset {}: {}", pos_, message); }

  PatternNode parse_alternatives(Part part, int nesting) {
    if (nesting > kMaxGroups) fail(fmt::format("groups are nested deeper than {}", kMaxGroups));
    PatternNode first = parse_sequence(part, nesting);
    if (!is_next("|")) return first;
    PatternNode all = {.kind = PatternKind::alternatives};
    all.children.push_back(std::move(first));
    while (skip("|")) all.children.push_back(parse_sequence(part, nesting));
    return all;
  }

  // ^ and $ are supported at the ends of an alternative, or of a look-ahead after ^.
  PatternNode parse_sequence(Part part, int nesting) {
    PatternNode sequence = {.kind = PatternKind::sequence};
    const bool begins = skip_begin(part);
    if (part == Part::whole && !begins) sequence.children.push_back(any_text());
    while (part == Part::whole && begins && (is_next("(?=") || is_next("(?!"))) parse_ahead(nesting);
    bool is_anchored = part == Part::group;
    while (!at_end() && !is_next("|") && !is_next(")")) {
      if (part != Part::group && is_next("$") && ends_alternative(pos_ + 1)) {
        ++pos_;
        is_anchored = true;
        break;
      }
      PatternNode atom = parse_atom(nesting);
      sequence.children.push_back(with_quantifier(std::move(atom)));
    }
    if (!is_anchored) sequence.children.push_back(any_text());
    return sequence;
  }

  bool skip_begin(Part part) { return part != Part::group && skip("^"); }
  bool ends_alternative(size_t at) const { return at >= pattern_.size() || pattern_[at] == '|' || pattern_[at] == ')'; }

  void parse_ahead(int nesting) {
    const bool negative = pattern_[pos_ + 2] == '!';
    pos_ += 3;
    PatternNode whole = parse_alternatives(Part::ahead, nesting + 1);
    if (!skip(")")) fail("the group has no closing `)`");
    aheads_.push_back({std::move(whole), negative});
  }

  PatternNode parse_atom(int nesting) {
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

  PatternNode one_of(CodePoints set) const {
    if (set.empty()) fail("the character class is empty");
    return {.kind = PatternKind::one_of, .characters = std::move(set)};
  }

  PatternNode parse_group(int nesting) {
    ++pos_;
    if (skip("?")) {
      if (skip("<") && !is_next("=") && !is_next("!")) {
        while (!at_end() && !is_next(">")) ++pos_;
        if (!skip(">")) fail("the group's name has no closing `>`");
      } else if (!skip(":")) {
        fail("look-around is supported only as look-ahead after `^`");
      }
    }
    PatternNode inner = parse_alternatives(Part::group, nesting + 1);
    if (!skip(")")) fail("the group has no closing `)`");
    return inner;
  }

  PatternNode with_quantifier(PatternNode atom) {
    PatternNode repeat = {.kind = PatternKind::repeat};
    if (is_next("*") || is_next("+") || is_next("?")) {
      const char c = pattern_[pos_++];
      repeat.min = c == '+' ? 1 : 0;
      repeat.max = c == '?' ? 1 : PatternNode::kUnlimited;
    } else if (is_next("{")) {
      parse_bounds(repeat);
    } else {
      return atom;
    }
    skip("?");
    if (is_next("*") || is_next("+") || is_next("{")) fail("a repetition of a repetition");
    repeat.children.push_back(std::move(atom));
    return repeat;
  }

  void parse_bounds(PatternNode& repeat) {
    const size_t close = pattern_.find('}', pos_);
    if (close == std::string_view::npos) fail("the repetition has no closing `}`");
    const std::string_view inside = pattern_.substr(pos_ + 1, close - pos_ - 1);
    const size_t comma = std::min(inside.find(','), inside.size());
    const auto is_number = [](std::string_view t) {
      return !t.empty() && t.size() < 10 && t.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const std::string_view min = inside.substr(0, comma);
    const std::string_view max = comma < inside.size() ? inside.substr(comma + 1) : min;
    if (!is_number(min) || !(max.empty() || is_number(max))) fail("a repetition has the form {2}, {2,} or {2,5}");
    repeat.min = static_cast<uint32_t>(std::stoul(std::string(min)));
    repeat.max = max.empty() ? PatternNode::kUnlimited : static_cast<uint32_t>(std::stoul(std::string(max)));
    if (repeat.max < repeat.min) fail("the repetition's bounds are in the wrong order");
    pos_ = close + 1;
  }

  uint32_t parse_code_point() {
    const auto first = static_cast<unsigned char>(pattern_[pos_++]);
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    uint32_t value = more == 0 ? first : first & (0x3fu >> more);
    for (int i = 0; i < more && !at_end(); ++i)
      value = value << 6 | (static_cast<unsigned char>(pattern_[pos_++]) & 0x3f);
    return std::min(value, kAllCodePoints.last);
  }

  uint32_t parse_hex(size_t digits) {
    const std::string_view text = pattern_.substr(pos_, digits);
    if (text.size() < digits || text.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      fail(fmt::format("expected {} hexadecimal digits", digits));
    }
    pos_ += digits;
    return static_cast<uint32_t>(std::stoul(std::string(text), nullptr, 16));
  }

  // Two \uHHHH may form one character.
  uint32_t parse_utf16() {
    const uint32_t high = parse_hex(4);
    if (high < 0xd800 || high > 0xdfff) return high;
    const uint32_t low = high < 0xdc00 && skip("\\u") ? parse_hex(4) : 0;
    if (low < 0xdc00 || low > 0xdfff) fail("half a surrogate pair is not a character");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  // \d is several characters, \n is one.
  CodePoints parse_escape(bool in_negated_class = false) {
    ++pos_;
    if (at_end()) fail("the pattern ends after `\\`");
    const char c = pattern_[pos_++];
    const auto one = [](uint32_t code_point) { return CodePoints{{code_point, code_point}}; };
    const CodePoints digit = {{'0', '9'}};
    const CodePoints word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    // Engines differ on \s beyond ASCII: \s and \S exclude it.
    const CodePoints space = {{'\t', '\r'}, {' ', ' '}};
    const CodePoints any_space = {{'\t', '\r'},     {0x1c, ' '},      {0x85, 0x85},     {0xa0, 0xa0},
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

  CodePoints parse_class() {
    ++pos_;
    const bool negated = skip("^");
    CodePoints set;
    while (!is_next("]")) {
      if (at_end()) fail("the character class has no closing `]`");
      const CodePoints item = parse_class_item(negated);
      const bool is_one = item.size() == 1 && item[0].first == item[0].last;
      if (is_one && is_next("-") && pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] != ']') {
        ++pos_;
        const CodePoints last = parse_class_item(negated);
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

  CodePoints parse_class_item(bool negated) {
    if (is_next("\\b")) {
      pos_ += 2;
      return {{'\b', '\b'}};
    }
    if (is_next("\\")) return parse_escape(negated);
    const uint32_t code_point = parse_code_point();
    return {{code_point, code_point}};
  }

  const std::string_view pattern_;
  size_t pos_ = 0;
  std::vector<StringPattern::Ahead> aheads_;
};

} // namespace

StringPattern parse_string_pattern(std::string_view pattern) { return PatternParser(pattern).parse(); }

} // namespace ridge::text
