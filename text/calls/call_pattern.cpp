#include "text/calls/call_pattern.h"

#include "text/calls/tool.h"

#include <algorithm>
#include <stdexcept>

namespace ridge::text {
namespace {

constexpr size_t kMaxVariable = 256;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool may_stand_for(char variable, char c) {
  if (variable == 'I') return c >= '0' && c <= '9';
  if (variable == 'T') return c >= 'a' && c <= 'z';
  return is_name_char(c) || (variable == 'D' && c == ':');
}

// Returns the offset after `$)`; the pattern begins with alternatives.
size_t find_alternatives(std::string_view pattern, std::vector<std::string_view>& alternatives) {
  int depth = 0;
  size_t begin = 2;
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '$') continue;
    const char kind = pattern[i + 1];
    depth += kind == '(' ? 1 : kind == ')' ? -1 : 0;
    const bool ends = depth == 0 && kind == ')';
    if (ends || (depth == 1 && kind == '|')) {
      alternatives.push_back(pattern.substr(begin, i - begin));
      begin = i + 2;
    }
    if (ends) return i + 2;
  }
  throw std::logic_error("a call syntax has an unclosed group");
}

} // namespace

PatternPart take_part(std::string_view& pattern) {
  PatternPart part;
  size_t size = std::min(pattern.find('$'), pattern.size());
  if (size > 0) {
    part.literal = pattern.substr(0, size);
  } else if (pattern.starts_with("$(")) {
    size = find_alternatives(pattern, part.alternatives);
  } else {
    part.variable = pattern[1];
    size = 2;
  }
  pattern.remove_prefix(size);
  return part;
}

PatternMatch match_pattern(std::string_view pattern, std::string_view text, bool whole) {
  const PatternMatch short_of = {whole ? PatternMatch::no : PatternMatch::more};
  PatternMatch match = {PatternMatch::yes};
  size_t& at = match.size;
  while (!pattern.empty()) {
    const PatternPart part = take_part(pattern);
    for (size_t i = 0; i < part.literal.size(); ++i) {
      if (is_space(part.literal[i])) {
        while (i + 1 < part.literal.size() && is_space(part.literal[i + 1])) ++i;
        while (at < text.size() && is_space(text[at])) ++at;
        if (at == text.size() && !whole) return short_of;
        continue;
      }
      if (at == text.size()) return short_of;
      if (text[at] != part.literal[i]) return {PatternMatch::no};
      ++at;
    }
    if (part.variable) {
      const size_t begin = at;
      while (at < text.size() && may_stand_for(part.variable, text[at])) ++at;
      if (at == text.size()) return short_of;
      if (at == begin || at - begin > kMaxVariable) return {PatternMatch::no};
      if (part.variable == 'D') match.id = text.substr(begin, at - begin);
    }
    bool fits = part.alternatives.empty();
    for (const std::string_view alternative : part.alternatives) {
      const PatternMatch inner = match_pattern(alternative, text.substr(at), whole);
      if (inner.result == PatternMatch::more) return inner;
      fits = inner.result == PatternMatch::yes;
      if (!fits) continue;
      at += inner.size;
      if (!inner.id.empty()) match.id = inner.id;
      break;
    }
    if (!fits) return {PatternMatch::no};
  }
  return match;
}

std::string write_pattern(std::string_view pattern, const PatternValues& values) {
  std::string text;
  while (!pattern.empty()) {
    const PatternPart part = take_part(pattern);
    text += part.literal;
    if (!part.alternatives.empty()) text += write_pattern(part.alternatives.front(), values);
    switch (part.variable) {
    case 'D': text += values.id; break;
    case 'I': text += std::to_string(values.number); break;
    case 'T': text += values.type; break;
    case 'N': text += values.name; break;
    default: break;
    }
  }
  return text;
}

} // namespace ridge::text
