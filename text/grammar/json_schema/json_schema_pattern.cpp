// String sets as grammars; JSON notation matches escaped text.
#include "core/error.h"
#include "text/grammar/json_schema/json_schema_rules.h"
#include "text/grammar/json_schema/json_schema_text.h"
#include "text/grammar/json_schema/string_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ridge::text {

namespace {

using Ranges = CodePoints;
using PatternKind = PatternNode::Kind;

constexpr size_t kMaxPatternStates = 50'000; // that a pattern's grammar may compile to

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

// Empty if `set` has at most `never`.
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

// Empty if the notation cannot write the set.
std::string character(GrammarRules& rules, const Ranges& set, const StringNotation& notation, const std::string& hint) {
  if (!notation.is_json) return plain_char_from_set(set, notation.never);
  const std::string expression = json_char_from_set(set);
  return expression.find('|') == std::string::npos ? expression : rules.add(hint + "-character", expression);
}

class PatternWriter {
 public:
  PatternWriter(GrammarRules& rules, const StringNotation& notation, const std::string& hint)
      : rules_(rules), notation_(notation), hint_(hint) {}

  struct Written {
    std::string text; // can take a quantifier
    size_t states = 1;
  };

  Written write(const PatternNode& node) {
    switch (node.kind) {
    case PatternKind::one_of: {
      const bool any = node.characters.size() == 1 && node.characters[0] == kAllCodePoints;
      std::string text = any ? notation_.any : character(rules_, node.characters, notation_, hint_);
      if (text.empty()) throw_error("no possible encoding of a `{}` there", notation_.never);
      return {std::move(text)};
    }
    case PatternKind::repeat: {
      Written body = write(node.children[0]);
      const bool unlimited = node.max == PatternNode::kUnlimited;
      const size_t copies = unlimited ? node.min + 1 : node.max;
      return bounded({fmt::format("{}{{{},{}}}", body.text, node.min, unlimited ? "" : std::to_string(node.max)),
                      (body.states + 1) * copies});
    }
    default: break;
    }
    std::vector<std::string> texts;
    size_t states = 0;
    for (const PatternNode& child : node.children) {
      Written written = write(child);
      texts.push_back(std::move(written.text));
      states += written.states + 1;
    }
    if (texts.empty()) return {"\"\""};
    return bounded({fmt::format("({})", fmt::join(texts, node.kind == PatternKind::sequence ? " " : " | ")), states});
  }

 private:
  static Written bounded(Written written) {
    if (written.states > kMaxPatternStates || written.text.size() > 20 * kMaxPatternStates)
      throw_error("the pattern is too large");
    return written;
  }

  GrammarRules& rules_;
  const StringNotation& notation_;
  const std::string& hint_;
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

std::string gbnf_from_pattern(GrammarRules& rules, const StringPattern& pattern, const StringNotation& notation,
                              const std::string& hint) {
  if (!pattern.aheads.empty()) return gbnf_from_set(rules, StringSet(pattern), notation, hint);
  return rules.add(hint, PatternWriter(rules, notation, hint).write(pattern.whole).text);
}

std::string gbnf_from_set(GrammarRules& rules, const StringSet& set, const StringNotation& notation,
                          const std::string& hint) {
  const bool may_write_all = notation.is_json || notation.never == 0;
  const StringSet written =
      may_write_all ? set : set.both(StringSet::without_character(static_cast<unsigned char>(notation.never)));
  if (written.empty()) throw_error("none of its strings can be encoded");
  std::string key = notation.is_json ? "json" : fmt::format("{}", static_cast<int>(notation.never));
  for (const StringSet::State& state : written.states()) {
    key += state.accepts ? "!" : ".";
    for (const StringSet::Edge& edge : state.edges) key += fmt::format("{}-{}>{};", edge.first, edge.last, edge.target);
  }
  if (const std::string* known = rules.find_written(key)) return *known;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < written.states().size(); ++i) numbers.push_back(rules.reserve(hint));
  for (size_t i = 0; i < written.states().size(); ++i) {
    const StringSet::State& state = written.states()[i];
    std::map<uint32_t, Ranges> by_target;
    for (const StringSet::Edge& edge : state.edges) by_target[edge.target].push_back({edge.first, edge.last});
    std::vector<std::string> ways;
    for (const auto& [target, characters] : by_target)
      ways.push_back(fmt::format("{} {}", character(rules, characters, notation, hint), rules.name(numbers[target])));
    if (state.accepts) ways.push_back("\"\"");
    rules.define(numbers[i], fmt::format("{}", fmt::join(ways, " | ")));
  }
  rules.keep_written(key, numbers[0]);
  return rules.name(numbers[0]);
}

} // namespace ridge::text
