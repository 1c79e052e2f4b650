// The rules of the grammar that the converter writes.
#pragma once

#include "text/grammar/json_schema/json_schema_merge.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ridge::text {

// Beyond these limits, parts are left out.
struct SchemaDetail {
  uint32_t max_count;
  size_t max_depth; // of nested values; deeper ones may be anything of their types
  bool strict;      // unsatisfiable parts are Errors; else they may be anything
};
std::span<const SchemaDetail> schema_details(); // decreasing; the last always succeeds

class GrammarRules {
 public:
  explicit GrammarRules(size_t first_detail = 0);

  // Returns `write` at the highest detail that throws no Error; only the lowest detail's Errors propagate. `size`
  // (values in the schema) bounds its work.
  std::string write_schema(size_t size, const std::function<std::string()>& write);
  const SchemaDetail& detail() const { return schema_details()[detail_]; }
  // Throws Error beyond a limit of visited or copied values.
  void count_work(size_t amount, const std::string& path);

  // Adds a rule of primitives() and its dependencies.
  std::string primitive(const std::string& name);
  // Returns an existing rule with this body, or a new one.
  std::string add(const std::string& hint, const std::string& body);
  const std::string* find_written(const std::string& key) const {
    const auto known = rule_of_key_.find(key);
    return known == rule_of_key_.end() ? nullptr : &rules_[known->second].name;
  }
  void keep_written(const std::string& key, size_t index) { rule_of_key_[key] = index; }
  size_t reserve(const std::string& hint);
  void define(size_t index, std::string body);

  const std::string& name(size_t index) const { return rules_[index].name; }
  size_t size() const { return rules_.size(); }
  void drop(size_t count);
  std::string text(const std::string& root) const;

 private:
  struct Rule {
    std::string name, body;
  };
  std::string unique_name(std::string hint);
  void count_text(size_t bytes);

  std::vector<Rule> rules_;
  std::set<std::string> names_ = {"root"};
  std::map<std::string, size_t> rule_of_body_, rule_of_key_;
  std::set<std::string> used_primitives_;
  size_t text_bytes_ = 0, next_number_ = 0;
  size_t first_detail_, detail_ = first_detail_;
  size_t work_ = 0, work_limit_ = 0;
};

// The values of `enum` or `const` that other keywords allow.
std::vector<Json> listed_values(const Json& schema, const std::string& path);

std::string enum_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
std::string string_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
// Without quotes; empty: any text.
std::string string_text(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint,
                        const StringNotation& notation);
// nullopt: any string. Throws Error for conditions that no set can represent.
std::optional<StringSet> string_set(const Json& schema, const std::string& path);
std::string number_rule(GrammarRules& rules, bool is_integer, const Json& schema, const std::string& path,
                        const std::string& hint);
// JSON strings other than `names`, without quotes: a tree over characters.
std::string other_key(GrammarRules& rules, const std::set<std::string>& names, const std::string& hint);

} // namespace ridge::text
