// The grammar that the JSON schema converter writes, rule by rule.
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

// How much of a schema becomes grammar. What is beyond it is left out.
struct SchemaDetail {
  uint32_t max_count; // of repetitions: longer lengths, more items
  size_t max_depth;   // of values within values; what is deeper may be any value of its types
  bool strict;        // that what nothing satisfies is an Error; else it may be anything
};
std::span<const SchemaDetail> schema_details(); // from all of a schema to hardly anything, which always succeeds

class GrammarRules {
 public:
  // `first_detail`: of schema_details().
  explicit GrammarRules(size_t first_detail = 0);

  // What `write` returns with the most detail with which it throws no Error. It may do work in proportion to `size`,
  // the number of values in the schema. Throws only what it throws with the least detail.
  std::string write_schema(size_t size, const std::function<std::string()>& write);
  const SchemaDetail& detail() const { return schema_details()[detail_]; }
  // Throws Error once all of it is too much: values visited or copied.
  void count_work(size_t amount, const std::string& path);

  // The rule of this name out of primitives(), with all that it uses.
  std::string primitive(const std::string& name);
  // The name of a rule with this body: a present one, or a new one called by the hint.
  std::string add(const std::string& hint, const std::string& body);
  // The first of several rules that were written under this key; null: none.
  const std::string* find_written(const std::string& key) const {
    const auto known = rule_of_key_.find(key);
    return known == rule_of_key_.end() ? nullptr : &rules_[known->second].name;
  }
  void keep_written(const std::string& key, size_t index) { rule_of_key_[key] = index; }
  // A rule whose body comes later, for recursion.
  size_t reserve(const std::string& hint);
  void define(size_t index, std::string body);

  const std::string& name(size_t index) const { return rules_[index].name; }
  size_t size() const { return rules_.size(); }
  // Forgets all rules but the first `count`.
  void drop(size_t count);
  // The whole grammar; `root` is the body of its first rule.
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

// The values of a schema with `enum` or `const` that its other keywords allow.
std::vector<Json> listed_values(const Json& schema, const std::string& path);

// Each gives an expression for a schema of its type.
std::string enum_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
std::string string_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
// The same without quotation marks, in any notation; empty: any text.
std::string string_text(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint,
                        const StringNotation& notation);
// The strings that a schema of strings allows; null: any. Throws an Error where a set cannot tell them apart.
std::optional<StringSet> string_set(const Json& schema, const std::string& path);
std::string number_rule(GrammarRules& rules, bool is_integer, const Json& schema, const std::string& path,
                        const std::string& hint);
// The inside of a JSON string that equals no name of `names`: a tree over their characters, one rule per node.
std::string other_key(GrammarRules& rules, const std::set<std::string>& names, const std::string& hint);

} // namespace ridge::text
