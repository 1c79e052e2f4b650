#include "text/grammar/json_schema/json_schema_rules.h"

#include "core/strings/utf8.h"
#include "text/grammar/json_schema/json_schema_merge.h"
#include "text/grammar/json_schema/json_schema_primitives.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <algorithm>

namespace ridge::text {

namespace {

constexpr size_t kMaxGrammarBytes = 8'000'000;
constexpr size_t kMaxNameLength = 200; // each character is a recursion level
constexpr size_t kMinWork = 50'000, kWorkPerValue = 200;

std::string other_key_node(GrammarRules& rules, const std::vector<std::vector<std::string>>& spellings, size_t depth,
                           const std::string& hint) {
  if (spellings.empty()) return rules.primitive("key-char") + "*";
  if (depth > kMaxNameLength) return rules.primitive("key-char") + "*"; // longer names are not distinguished
  std::map<std::string, std::vector<std::vector<std::string>>> by_unit;
  bool is_name = false;
  for (const auto& spelling : spellings) {
    if (spelling.size() == depth) {
      is_name = true;
    } else {
      by_unit[spelling[depth]].push_back(spelling);
    }
  }
  std::string excluded, escapes = "\"\\bfnrt", pieces;
  for (const auto& [unit, longer] : by_unit) {
    if (unit.size() == 2 && unit[0] == '\\') {
      escapes.erase(std::remove(escapes.begin(), escapes.end(), unit[1]), escapes.end());
    } else if (unit[0] != '\\') {
      excluded += unit == "]" || unit == "^" || unit == "-" || unit == "[" ? fmt::format("\\x{:02X}", unit[0]) : unit;
    } else {
      continue;
    }
    pieces += fmt::format("{} {} | ", gbnf_literal(unit), other_key_node(rules, longer, depth + 1, hint));
  }
  std::string escape_class;
  for (const char c : escapes) escape_class += c == '\\' ? "\\\\" : std::string(1, c);
  pieces += fmt::format("[^{}\"\\\\\\x7F\\x00-\\x1F] {}*", excluded, rules.primitive("key-char"));
  if (!escapes.empty()) pieces += fmt::format(" | \"\\\\\" [{}] key-char*", escape_class);
  return rules.add(hint + "-key", is_name ? pieces : fmt::format("({})?", pieces));
}

} // namespace

std::span<const SchemaDetail> schema_details() {
  static constexpr SchemaDetail kDetails[] = {{100'000, 200, true}, {100'000, 200, false}, {1'000, 200, false},
                                              {100, 8, false},      {10, 2, false},        {0, 0, false}};
  return kDetails;
}

GrammarRules::GrammarRules(size_t first_detail) : first_detail_(first_detail) {
  for (const auto& [name, primitive] : primitives()) names_.insert(name);
}

std::string GrammarRules::write_schema(size_t size, const std::function<std::string()>& write) {
  const size_t count = rules_.size();
  for (detail_ = first_detail_;; ++detail_) {
    work_ = 0;
    work_limit_ = kMinWork + kWorkPerValue * size;
    try {
      return write();
    } catch (const core::Error&) {
      drop(count);
      if (detail_ + 1 == schema_details().size()) throw;
    }
  }
}

void GrammarRules::count_work(size_t amount, const std::string& path) {
  work_ += amount;
  if (work_ > work_limit_) fail_schema(path, "the schema is too large once its parts are combined");
}

void GrammarRules::count_text(size_t bytes) {
  text_bytes_ += bytes;
  if (text_bytes_ > kMaxGrammarBytes)
    fail_schema("#", fmt::format("its grammar is longer than {} bytes", kMaxGrammarBytes));
}

std::string GrammarRules::primitive(const std::string& name) {
  if (used_primitives_.insert(name).second) {
    for (const char* used : primitives().at(name).uses) primitive(used);
  }
  return name;
}

std::string GrammarRules::unique_name(std::string hint) {
  for (char& c : hint) {
    const bool is_valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_valid) c = '-';
  }
  if (hint.size() > 60) hint.resize(60);
  std::string name = hint;
  while (!names_.insert(name).second) name = fmt::format("{}-{}", hint, ++next_number_);
  return name;
}

std::string GrammarRules::add(const std::string& hint, const std::string& body) {
  const auto known = rule_of_body_.find(body);
  if (known != rule_of_body_.end()) return rules_[known->second].name;
  count_text(body.size());
  rule_of_body_[body] = rules_.size();
  rules_.push_back({unique_name(hint), body});
  return rules_.back().name;
}

size_t GrammarRules::reserve(const std::string& hint) {
  rules_.push_back({unique_name(hint), ""});
  return rules_.size() - 1;
}

void GrammarRules::define(size_t index, std::string body) {
  count_text(body.size());
  rules_[index].body = std::move(body);
}

void GrammarRules::drop(size_t count) {
  for (size_t i = count; i < rules_.size(); ++i) {
    text_bytes_ -= rules_[i].body.size();
    const auto known = rule_of_body_.find(rules_[i].body);
    if (known != rule_of_body_.end() && known->second == i) rule_of_body_.erase(known);
  }
  rules_.resize(count);
  std::erase_if(rule_of_key_, [&](const auto& entry) { return entry.second >= count; });
}

std::string GrammarRules::text(const std::string& root) const {
  std::string text = fmt::format("root ::= {}\n", root);
  for (const Rule& rule : rules_) text += fmt::format("{} ::= {}\n", rule.name, rule.body);
  for (const std::string& name : used_primitives_) {
    text += fmt::format("{} ::= {}\n", name, primitives().at(name).body);
  }
  return text;
}

std::string other_key(GrammarRules& rules, const std::set<std::string>& names, const std::string& hint) {
  std::vector<std::vector<std::string>> spellings; // JSON text, split into characters and escapes
  for (const std::string& name : names) {
    const std::string quoted = Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
    std::vector<std::string> units;
    for (size_t i = 1; i + 1 < quoted.size();) {
      size_t size = quoted[i] == '\\' ? (quoted[i + 1] == 'u' ? 6 : 2) : 1;
      while (quoted[i] != '\\' && core::is_utf8_continuation(quoted[i + size])) ++size;
      units.push_back(quoted.substr(i, size));
      i += size;
    }
    spellings.push_back(std::move(units));
  }
  return other_key_node(rules, spellings, 0, hint);
}

} // namespace ridge::text
