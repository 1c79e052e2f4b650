// What parts of a JSON schema mean within their document: references followed, schemas that all hold merged into one.
// The work is limited, because a short document can stand for a huge schema.
#pragma once

#include "text/grammar/json_schema_merge.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class SchemaParts {
 public:
  // `document`, which must outlive this, is where references lead. Throws Error where it is nested too deeply.
  explicit SchemaParts(const Json& document);

  // Throws Error once all of it is too much: values visited or copied.
  void count_work(size_t amount, const std::string& path);
  // A copy without this keyword and without annotations.
  Json without(const Json& schema, const char* keyword, const std::string& path);
  Json merge(const Json& a, const Json& b, const std::string& path);
  const Json& referenced(const std::string& reference, const std::string& path) const;
  // The schema with its $ref and allOf replaced by their targets, recursively.
  Json resolve(const Json& schema, const std::string& path);
  // The schemas of anyOf or oneOf, each with what stands beside that keyword.
  std::vector<Json> branches(const Json& schema, const char* keyword, const std::string& path);
  // The schema as alternatives without $ref, allOf, anyOf, oneOf and nullable: each is a list of values (enum, const),
  // of one type, or empty: anything. None: nothing satisfies it.
  std::vector<Json> alternatives(const Json& schema, const std::string& path);

 private:
  void add_alternatives(const Json& schema, const std::string& path, std::vector<Json>& all);

  const Json& document_;
  size_t nesting_ = 0, work_ = 0;
};

inline constexpr size_t kMaxSchemaDepth = 800; // of schemas that lead to each other

// The types that `type` names, or those that the other keywords imply.
std::vector<std::string> implied_types(const Json& schema, const std::string& path);

} // namespace ridge::text
