// White space follows Jinja2's regular expressions: prompts are compared by byte.
#include "text/jinja/lexer.h"

#include "core/strings/utf8.h"
#include "text/jinja/integers.h"
#include "text/jinja/text.h"

#include <algorithm>
#include <array>

namespace ridge::text::jinja {

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

namespace {

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      size_t open = source_.find('{', at_);
      while (open != source_.npos && !is_opening(open)) open = source_.find('{', open + 1);
      if (open == source_.npos) {
        add_data(source_.substr(at_));
        break;
      }
      const char kind = source_[open + 1];
      const char sign =
          open + 2 < source_.size() && (source_[open + 2] == '-' || source_[open + 2] == '+') ? source_[open + 2] : 0;
      add_data(before_tag(at_, open, sign, kind != '{'));
      tag_ = open;
      at_ = open + (sign ? 3 : 2);
      if (kind == '#')
        skip_comment();
      else if (kind == '%' && !raw_block())
        tag(Token::Kind::block_begin, Token::Kind::block_end);
      else if (kind == '{')
        tag(Token::Kind::print_begin, Token::Kind::print_end);
    }
    tokens_.push_back({Token::Kind::end, source_.size()});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_at(size_t offset, std::string message) { throw PlacedProblem{{std::move(message)}, offset}; }

  bool is_opening(size_t at) const {
    return at + 1 < source_.size() && (source_[at + 1] == '%' || source_[at + 1] == '{' || source_[at + 1] == '#');
  }

  // [from, to) without white space that the next tag takes.
  std::string_view before_tag(size_t from, size_t to, char sign, bool is_block) const {
    const std::string_view text = source_.substr(from, to - from);
    if (sign == '-') return strip(text, false, true);
    if (sign == '+' || !is_block) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == text.npos ? 0 : newline + 1;
    const bool begins_line = line > 0 || from == 0 || source_[from - 1] == '\n';
    return begins_line && strip(text.substr(line), true, false).empty() ? text.substr(0, line) : text;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) tokens_.push_back({Token::Kind::data, at_, std::string(text)});
  }

  void skip_space() { at_ = source_.size() - strip(source_.substr(at_), true, false).size(); }

  bool take(std::string_view text) {
    if (source_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  // The end of a tag, with the white space that it takes.
  bool take_end(std::string_view end, bool is_block) {
    const size_t start = at_;
    if (take("-") && take(end)) {
      skip_space();
      return true;
    }
    at_ = start;
    if (is_block && take("+") && take(end)) return true;
    at_ = start;
    if (!take(end)) return false;
    if (is_block) take("\n");
    return true;
  }

  void skip_comment() {
    const size_t close = source_.find("#}", at_);
    if (close == source_.npos) fail_at(tag_, "the comment is never closed: expected '#}'");
    const bool has_sign = close > at_ && (source_[close - 1] == '-' || source_[close - 1] == '+');
    at_ = has_sign ? close - 1 : close;
    take_end("#}", true);
  }

  // {% raw %} … {% endraw %}, after the opening sign. False: another tag, nothing read.
  bool raw_block() {
    const size_t start = at_;
    skip_space();
    if (!take("raw")) return at_ = start, false;
    skip_space();
    if (take("-%}")) {
      skip_space();
    } else if (!take("%}")) {
      return at_ = start, false;
    }
    for (size_t open = source_.find("{%", at_); open != source_.npos; open = source_.find("{%", open + 1)) {
      const size_t body = at_;
      at_ = open + 2;
      const char sign = take("-") ? '-' : take("+") ? '+' : 0;
      skip_space();
      if (take("endraw")) {
        skip_space();
        const size_t end = at_;
        if (take_end("%}", true)) {
          const size_t after = std::exchange(at_, body);
          add_data(before_tag(body, open, sign, true));
          at_ = after;
          return true;
        }
        at_ = end;
      }
      at_ = body;
    }
    fail_at(tag_, "the raw block is never closed: expected '{% endraw %}'");
  }

  void tag(Token::Kind begin, Token::Kind end) {
    const bool is_block = begin == Token::Kind::block_begin;
    const std::string_view closing = is_block ? "%}" : "}}";
    tokens_.push_back({begin, tag_});
    std::string open_brackets;
    while (true) {
      skip_space();
      if (at_ >= source_.size()) fail_at(tag_, fmt::format("the tag is never closed: expected '{}'", closing));
      const size_t offset = at_;
      if (open_brackets.empty() && take_end(closing, is_block)) {
        tokens_.push_back({end, offset});
        return;
      }
      const CodePoint point = decode_at(source_, at_);
      if (point.value < 0x80 && std::isdigit(static_cast<int>(point.value)))
        number();
      else if (is_word(point.value))
        name();
      else if (point.value == '"' || point.value == '\'')
        string();
      else
        symbol(open_brackets);
    }
  }

  void name() {
    const size_t start = at_;
    while (at_ < source_.size() && is_word(decode_at(source_, at_).value)) at_ += decode_at(source_, at_).bytes;
    tokens_.push_back({Token::Kind::name, start, std::string(source_.substr(start, at_ - start))});
  }

  size_t digits_end(size_t at) const {
    while (at < source_.size() && (std::isdigit(static_cast<unsigned char>(source_[at])) ||
                                   (source_[at] == '_' && at + 1 < source_.size() &&
                                    std::isdigit(static_cast<unsigned char>(source_[at + 1])))))
      ++at;
    return at;
  }

  bool digit_at(size_t at) const {
    return at < source_.size() && std::isdigit(static_cast<unsigned char>(source_[at]));
  }

  void number() {
    const size_t start = at_;
    size_t end = digits_end(at_);
    bool is_float = false;
    if (start == 0 || source_[start - 1] != '.') { // x.0.1 is two subscripts
      if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
        end = digits_end(end + 1);
        is_float = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
        if (digit_at(end + 1 + sign)) {
          end = digits_end(end + 1 + sign);
          is_float = true;
        }
      }
    }
    if (is_float) {
      at_ = end;
      const auto value = parse_float(source_.substr(start, end - start));
      tokens_.push_back({Token::Kind::floating, start, {}, {}, value.value_or(0)});
      return;
    }
    const char letter = start + 1 < source_.size() ? static_cast<char>(source_[start + 1] | 0x20) : ' ';
    if (source_[start] == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      end = start + 2;
      while (end < source_.size() && (std::isalnum(static_cast<unsigned char>(source_[end])) || source_[end] == '_'))
        ++end;
    }
    at_ = end;
    try {
      auto value = parse_integer(source_.substr(start, end - start), 0);
      if (!value) fail_at(start, "malformed number");
      tokens_.push_back({Token::Kind::integer, start, {}, std::move(*value)});
    } catch (Problem& problem) {
      fail_at(start, problem.message);
    }
  }

  void string() {
    const size_t start = at_;
    const char quote = source_[at_++];
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size())
        escape(text);
      else
        text += source_[at_++];
    }
    if (at_ >= source_.size()) fail_at(start, "the string is never closed");
    ++at_;
    tokens_.push_back({Token::Kind::string, start, std::move(text)});
  }

  // Python's escapes; unknown ones stay verbatim.
  void escape(std::string& text) {
    const size_t start = at_;
    const char c = source_[at_ + 1];
    at_ += 2;
    constexpr std::string_view kNames = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      text += kMeanings[i];
    } else if (c == '\n') {
      return;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      --at_;
      for (int i = 0; i < 3 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7'; ++i)
        value = value * 8 + static_cast<char32_t>(source_[at_++] - '0');
      core::append_utf8(text, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view hex = source_.substr(at_, digits);
      if (hex.size() < digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
        fail_at(start, fmt::format("'\\{}' needs {} hexadecimal digits", c, digits));
      const auto value = static_cast<char32_t>(std::stoul(std::string(hex), nullptr, 16));
      if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        fail_at(start, "the escape names no Unicode character");
      core::append_utf8(text, value);
      at_ += digits;
    } else if (c == 'N') {
      fail_at(start, "character names (\\N{…}) are not supported: write \\u and the number");
    } else {
      (text += '\\') += c;
    }
  }

  void symbol(std::string& open_brackets) {
    constexpr std::array<std::string_view, 27> kSymbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", "!"};
    const size_t start = at_;
    const auto found = std::find_if(kSymbols.begin(), kSymbols.end(), [&](std::string_view s) { return take(s); });
    if (found == kSymbols.end() || *found == "!")
      fail_at(start, fmt::format("unexpected character '{}'", source_.substr(start, decode_at(source_, start).bytes)));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open_brackets += c;
    if (c == ')' || c == ']' || c == '}') {
      const char expected = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open_brackets.empty() || open_brackets.back() != expected) fail_at(start, fmt::format("unexpected '{}'", c));
      open_brackets.pop_back();
    }
    tokens_.push_back({Token::Kind::symbol, start, std::string(*found)});
  }

  std::string_view source_;
  size_t at_ = 0;
  size_t tag_ = 0;
  std::vector<Token> tokens_;
};

} // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

} // namespace ridge::text::jinja
