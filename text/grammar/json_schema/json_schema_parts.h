// What parts of a JSON schema mean within their document: references followed, schemas that all hold merged into one.
#pragma once

#include "text/grammar/json_schema/json_schema_merge.h"
#include "text/grammar/json_schema/json_schema_rules.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

inline constexpr size_t kMaxSchemaDepth = 800; // of schemas that lead to each other

// A level of a walk over a schema. What it opened is closed again, also where an Error leaves it.
class SchemaLevel {
 public:
  // Throws Error where there are too many. Both are the walk's.
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
  // `document`, which must outlive this, is where references lead. The work is counted as that of the rules, because a
  // short document can stand for a huge schema.
  SchemaParts(const Json& document, GrammarRules& rules) : document_(document), rules_(rules) {}

  // A copy without this keyword and without annotations.
  Json without(const Json& schema, const char* keyword, const std::string& path);
  Json merge(const Json& a, const Json& b, const std::string& path);
  // Null: the reference leads nowhere in the document.
  const Json* referenced(const std::string& reference, const std::string& path);
  // The schema with its $ref and allOf replaced by their targets, recursively. A reference that leads back to itself,
  // or nowhere, says nothing.
  Json resolve(const Json& schema, const std::string& path);
  // The schemas of anyOf or oneOf, each with what stands beside that keyword.
  std::vector<Json> branches(const Json& schema, const char* keyword, const std::string& path);
  // The schema as alternatives without $ref, allOf, anyOf, oneOf and nullable: each is a list of values (enum, const),
  // of one type, or empty: anything. None: nothing satisfies it.
  std::vector<Json> alternatives(const Json& schema, const std::string& path);
  // The schema of an object without each property that others depend on, and one with it and what it wants. Null: there
  // is no such keyword.
  std::optional<std::vector<Json>> dependency_cases(const Json& schema, const std::string& path);

 private:
  void add_alternatives(const Json& schema, const std::string& path, std::vector<Json>& all);

  const Json& document_;
  GrammarRules& rules_;
  std::vector<std::string> open_references_;
  size_t nesting_ = 0;
};

// What `required` names.
std::set<std::string> required_names(const Json& schema, const std::string& path);

// Whether `not` leaves nothing. Any other `not` is left out.
bool excludes_all(const Json& schema);

// The types that `type` names, or those that the other keywords imply.
std::vector<std::string> implied_types(const Json& schema, const std::string& path);

} // namespace ridge::text
