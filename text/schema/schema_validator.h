// Whether a JSON value satisfies a JSON schema, by the specification (2020-12, and draft 7 where that differs).
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

// All keywords but `format`, which is an annotation, and $dynamicRef count. A reference that leads nowhere in the
// schema, an endless one and a pattern that is no regular expression say nothing. Time and depth of a check are
// limited: where they are used up, the value passes.
class SchemaValidator {
 public:
  // A schema that clean_schema() let pass.
  explicit SchemaValidator(nlohmann::ordered_json schema) : schema_(std::move(schema)) {}

  // The first thing about the value that the schema forbids, with its place in the value; empty: nothing.
  std::string complaint(const nlohmann::ordered_json& value) const;

 private:
  nlohmann::ordered_json schema_;
};

} // namespace ridge::text
