// Resolves references and allOf.
#pragma once

#include "text/grammar/json_schema/json_schema_merge.h"
#include "text/grammar/json_schema/json_schema_rules.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

inline constexpr size_t kMaxSchemaDepth = 800;

// Restores the walk's state on exit, also after exceptions.
class SchemaLevel {
 public:
  // Throws Error if too deep.
  SchemaLevel(size_t& nesting, std::vector<std::string>& open_references, const std::string& path)
      : nesting_(nesting), open_references_(open_references), outer_(open_references.size()) {
    if (nesting == kMaxSchemaDepth) fail_schema(path, "its parts refer to each other too deeply");
    ++nesting_;
  }
  ~SchemaLevel() {
    --nesting_;
    open_references_.resize(outer_);
  }
  SchemaLevel(const SchemaLevel&) = delete;
  SchemaLevel& operator=(const SchemaLevel&) = delete;

 private:
  size_t& nesting_;
  std::vector<std::string>& open_references_;
  const size_t outer_;
};

class SchemaParts {
 public:
  // References point into `document`, which must outlive this. `rules` counts the work: short documents can expand
  // hugely.
  SchemaParts(const Json& document, GrammarRules& rules) : document_(document), rules_(rules) {}

  Json without(const Json& schema, const char* keyword, const std::string& path);
  Json merge(const Json& a, const Json& b, const std::string& path);
  const Json* referenced(const std::string& reference, const std::string& path);
  // Replaces $ref and allOf; ignores circular and dangling references.
  Json resolve(const Json& schema, const std::string& path);
  // anyOf or oneOf, merged with the rest.
  std::vector<Json> branches(const Json& schema, const char* keyword, const std::string& path);
  // Alternatives without $ref, allOf, anyOf, oneOf, nullable: each is a value list, has one type, or is empty
  // (anything). No alternatives: unsatisfiable.
  std::vector<Json> alternatives(const Json& schema, const std::string& path);
  // Per dependent property: without it; with it and its requirements. nullopt: none.
  std::optional<std::vector<Json>> dependency_cases(const Json& schema, const std::string& path);

 private:
  void add_alternatives(const Json& schema, const std::string& path, std::vector<Json>& all);

  const Json& document_;
  GrammarRules& rules_;
  std::vector<std::string> open_references_;
  size_t nesting_ = 0;
};

std::set<std::string> required_names(const Json& schema, const std::string& path);

bool excludes_all(const Json& schema);

std::vector<std::string> implied_types(const Json& schema, const std::string& path);

} // namespace ridge::text
