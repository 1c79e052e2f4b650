// GBNF parser.
#include "text/grammar/grammar_syntax.h"

#include "core/error.h"
#include "core/strings/utf8.h"

#include <algorithm>
#include <unordered_map>

namespace ridge::text {

namespace {

constexpr uint32_t kLastCodePoint = 0x10ffff;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class SyntaxParser {
 public:
  explicit SyntaxParser(std::string_view text) : text_(text) {}

  GrammarSyntax parse() {
    if (text_.size() > Grammar::kMaxTextBytes) {
      throw_error("grammar: {} bytes long, the limit is {}", text_.size(), Grammar::kMaxTextBytes);
    }
    for (skip_space(true); !at_end(); skip_space(true)) parse_rule();
    for (size_t i = 0; i < uses_.size(); ++i) {
      if (!uses_[i].defined) {
        fail_at(uses_[i].first_use, fmt::format("rule `{}` is used but not defined", syntax_.rules[i].name));
      }
    }
    const auto root = rule_ids_.find("root");
    if (root == rule_ids_.end()) throw_error("grammar: the rule `root`, where the output starts, is missing");
    syntax_.root = root->second;
    return std::move(syntax_);
  }

 private:
  using Node = GrammarNode;
  using Kind = GrammarNode::Kind;
  struct Use {
    size_t first_use;
    bool defined = false;
  };

  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool is_next(char c) const { return !at_end() && text_[pos_] == c; }

  [[noreturn]] void fail_at(size_t pos, const std::string& message) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < pos && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else if (!core::is_utf8_continuation(text_[i])) {
        ++column; // characters, not bytes
      }
    }
    throw_error("grammar line {}, column {}: {}", line, column, message);
  }

  [[noreturn]] void fail_expected(const char* what) const {
    const std::string found = at_end() ? "the end"
                              : static_cast<unsigned char>(peek()) < 0x20
                                  ? fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(peek()))
                                  : fmt::format("`{}`", text_.substr(pos_, character_size()));
    fail_at(pos_, fmt::format("expected {}, found {}", what, found));
  }

  size_t character_size() const {
    size_t size = 1;
    while (pos_ + size < text_.size() && core::is_utf8_continuation(text_[pos_ + size])) ++size;
    return size;
  }

  // Line ends only if `newlines`.
  void skip_space(bool newlines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++pos_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else {
        return;
      }
    }
  }

  std::string parse_name() {
    const size_t begin = pos_;
    while (!at_end() && is_name_char(peek())) ++pos_;
    if (pos_ == begin) fail_expected("a rule name (letters, digits, - and _)");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  uint32_t rule_id(const std::string& name, size_t where) {
    const auto [entry, is_new] = rule_ids_.try_emplace(name, static_cast<uint32_t>(syntax_.rules.size()));
    if (is_new) {
      syntax_.rules.push_back({name, {}});
      uses_.push_back({where});
    }
    return entry->second;
  }

  void parse_rule() {
    const size_t begin = pos_;
    const std::string name = parse_name();
    const uint32_t id = rule_id(name, begin);
    if (uses_[id].defined) fail_at(begin, fmt::format("rule `{}` is defined a second time", name));
    uses_[id].defined = true;
    skip_space(false);
    if (text_.substr(pos_, 3) != "::=") fail_expected("`::=` after the rule's name");
    pos_ += 3;
    skip_space(true);
    Node body = parse_alternatives(0);
    if (!at_end() && peek() != '\n' && peek() != '\r') {
      fail_expected("a symbol, `|`, or a new line after the rule");
    }
    syntax_.rules[id].body = std::move(body);
  }

  Node parse_alternatives(int nesting) {
    if (nesting > Grammar::kMaxNesting) {
      fail_at(pos_, fmt::format("parentheses are nested deeper than {}", Grammar::kMaxNesting));
    }
    Node node{Kind::alternatives};
    node.children.push_back(parse_sequence(nesting));
    while (is_next('|')) {
      ++pos_;
      skip_space(true);
      node.children.push_back(parse_sequence(nesting));
    }
    return node.children.size() == 1 ? std::move(node.children[0]) : std::move(node);
  }

  Node parse_sequence(int nesting) {
    const bool newlines = nesting > 0;
    Node sequence{Kind::sequence};
    count_node();
    while (!at_end()) {
      count_node();
      const char c = peek();
      if (c == '"') {
        sequence.children.push_back(parse_literal());
      } else if (c == '[') {
        sequence.children.push_back(parse_class());
      } else if (c == '.') {
        ++pos_;
        sequence.children.push_back({Kind::char_class, {}, {{0, kLastCodePoint}}});
      } else if (c == '<' || c == '!') {
        sequence.children.push_back(parse_token());
      } else if (c == '(') {
        ++pos_;
        skip_space(true);
        Node group = parse_alternatives(nesting + 1);
        if (!is_next(')')) fail_expected("a symbol, `|` or `)`");
        ++pos_;
        sequence.children.push_back(std::move(group));
      } else if (is_name_char(c)) {
        const size_t begin = pos_;
        Node reference{Kind::rule};
        reference.index = rule_id(parse_name(), begin);
        sequence.children.push_back(std::move(reference));
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (sequence.children.empty()) fail_at(pos_, fmt::format("`{}` has nothing before it to repeat", c));
        wrap_in_repeat(sequence.children.back(), newlines);
      } else {
        break;
      }
      skip_space(newlines);
    }
    return sequence;
  }

  // Every symbol becomes a state; this check keeps the tree small.
  void count_node() {
    if (++node_count_ > Grammar::kMaxStates) fail_at(pos_, fmt::format("more than {} symbols", Grammar::kMaxStates));
  }

  void wrap_in_repeat(Node& node, bool newlines) {
    // Repeats of repeats nest the tree without parentheses; counting each level bounds its depth.
    int depth = 1;
    for (const Node* n = &node; n->kind == Kind::repeat; n = &n->children[0]) ++depth;
    if (depth > Grammar::kMaxNesting)
      fail_at(pos_, fmt::format("more than {} repetitions in a row", Grammar::kMaxNesting));

    Node repeat{Kind::repeat};
    const char c = text_[pos_++];
    if (c == '{') {
      parse_bounds(repeat, newlines);
    } else {
      repeat.min = c == '+' ? 1 : 0;
      repeat.max = c == '?' ? 1 : Node::kUnlimited;
    }
    repeat.children.push_back(std::move(node));
    node = std::move(repeat);
  }

  void parse_bounds(Node& repeat, bool newlines) {
    skip_space(newlines);
    const size_t begin = pos_;
    repeat.min = repeat.max = parse_count();
    skip_space(newlines);
    if (is_next(',')) {
      ++pos_;
      skip_space(newlines);
      repeat.max = is_next('}') ? Node::kUnlimited : parse_count();
      skip_space(newlines);
    }
    if (!is_next('}')) fail_expected("`,` or `}` in a repetition");
    ++pos_;
    if (repeat.min > repeat.max) {
      fail_at(begin, fmt::format("repetition {{{},{}}} has its bounds in the wrong order", repeat.min, repeat.max));
    }
  }

  uint32_t parse_count() {
    if (!is_digit(peek())) fail_expected("a number");
    const size_t begin = pos_;
    uint64_t count = 0;
    for (; is_digit(peek()); ++pos_) {
      count = count * 10 + static_cast<uint64_t>(peek() - '0');
      if (count >= std::numeric_limits<int32_t>::max()) fail_at(begin, "the number is too large");
    }
    return static_cast<uint32_t>(count);
  }

  uint32_t parse_char() {
    if (peek() == '\\') {
      const size_t begin = pos_;
      const char c = peek(1);
      pos_ += 2;
      switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': return parse_hex(2);
      case 'u': return parse_hex(4);
      case 'U': return parse_hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-': return static_cast<uint32_t>(c);
      default: fail_at(begin, "unknown escape; expected \\n \\r \\t \\\" \\\\ \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH");
      }
    }
    return parse_utf8();
  }

  uint32_t parse_hex(int digits) {
    uint32_t value = 0;
    const size_t begin = pos_;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const char c = peek();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0)
        fail_expected(digits == 2   ? "2 hexadecimal digits"
                      : digits == 4 ? "4 hexadecimal digits"
                                    : "8 hexadecimal digits");
      value = value << 4 | static_cast<uint32_t>(digit);
    }
    if (value > kLastCodePoint) fail_at(begin, "the code point is above U+10FFFF");
    return value;
  }

  uint32_t parse_utf8() {
    const core::Utf8Head head = core::utf8_head(text_.substr(pos_));
    if (head.status != core::Utf8Status::valid) fail_at(pos_, "the text is not UTF-8");
    pos_ += head.bytes;
    return core::utf8_code_point(text_.substr(pos_ - head.bytes, head.bytes));
  }

  Node parse_literal() {
    const size_t begin = pos_++;
    Node node{Kind::literal};
    while (!is_next('"')) {
      if (at_end()) fail_at(begin, "the literal has no closing `\"`");
      const size_t where = pos_;
      const uint32_t c = parse_char();
      if (c >= 0xd800 && c <= 0xdfff) fail_at(where, "a surrogate cannot appear in text; write \\U and the code point");
      core::append_utf8(node.bytes, c);
    }
    ++pos_;
    return node;
  }

  Node parse_class() {
    const size_t begin = pos_++;
    const bool negated = is_next('^');
    if (negated) ++pos_;
    std::vector<CodePointRange> ranges;
    while (!is_next(']')) {
      if (at_end()) fail_at(begin, "the character class has no closing `]`");
      const size_t where = pos_;
      CodePointRange range{};
      range.first = range.last = parse_char();
      if (is_next('-') && peek(1) != ']') {
        ++pos_;
        if (at_end()) fail_at(begin, "the character class has no closing `]`");
        range.last = parse_char();
        if (range.last < range.first) fail_at(where, "the range ends before it begins");
      }
      ranges.push_back(range);
    }
    ++pos_;
    if (ranges.empty()) fail_at(begin, "the character class is empty");
    return {Kind::char_class, {}, normalize_ranges(std::move(ranges), negated)};
  }

  Node parse_token() {
    const size_t begin = pos_;
    Grammar::TokenReference reference{-1, {}, is_next('!')};
    if (reference.negated) ++pos_;
    if (!is_next('<')) fail_expected("`<` and a token");
    const size_t text_begin = pos_++;
    if (is_next('[')) {
      ++pos_;
      reference.id = static_cast<int32_t>(parse_count());
      if (peek() != ']' || peek(1) != '>') fail_expected("`]>` after the token's number");
      pos_ += 2;
    } else {
      while (!is_next('>')) {
        if (at_end() || peek() == '\n') fail_at(begin, "the token has no closing `>`");
        ++pos_;
      }
      ++pos_;
      reference.text = text_.substr(text_begin, pos_ - text_begin);
    }
    Node node{Kind::token};
    node.index = static_cast<uint32_t>(syntax_.tokens.size());
    syntax_.tokens.push_back(std::move(reference));
    return node;
  }

  std::string_view text_;
  size_t pos_ = 0;
  size_t node_count_ = 0;
  GrammarSyntax syntax_;
  std::unordered_map<std::string, uint32_t> rule_ids_;
  std::vector<Use> uses_;
};

} // namespace

GrammarSyntax parse_grammar_syntax(std::string_view gbnf) { return SyntaxParser(gbnf).parse(); }

std::vector<CodePointRange> normalize_ranges(std::vector<CodePointRange> ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  if (!negated) return merged;
  std::vector<CodePointRange> others;
  uint32_t next = 0;
  for (const CodePointRange& range : merged) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  return others;
}

} // namespace ridge::text
