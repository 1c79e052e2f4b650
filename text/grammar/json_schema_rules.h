// The grammar that the JSON schema converter writes, rule by rule.
#pragma once

#include "text/grammar/json_schema_merge.h"
#include "text/grammar/json_schema_text.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ridge::text {

class GrammarRules {
 public:
  // The rule of this name out of primitives(), with all that it uses.
  std::string primitive(const std::string& name);
  // The name of a rule with this body: a present one, or a new one called by the hint.
  std::string add(const std::string& hint, const std::string& body);
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

  std::vector<Rule> rules_;
  std::set<std::string> names_ = {"root"};
  std::map<std::string, size_t> rule_of_body_;
  std::set<std::string> used_primitives_;
  size_t text_bytes_ = 0, next_number_ = 0;
};

// The values of a schema with `enum` or `const` that its other keywords allow.
std::vector<Json> listed_values(const Json& schema, const std::string& path);

// Each gives an expression for a schema of its type.
std::string enum_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
std::string string_rule(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint);
// The same without quotation marks, in any notation; empty: any text.
std::string string_text(GrammarRules& rules, const Json& schema, const std::string& path, const std::string& hint,
                        const StringNotation& notation);
std::string number_rule(GrammarRules& rules, bool is_integer, const Json& schema, const std::string& path,
                        const std::string& hint);
// The inside of a JSON string that equals no name of `names`: a tree over their characters, one rule per node.
std::string other_key(GrammarRules& rules, const std::set<std::string>& names, const std::string& hint);

} // namespace ridge::text
