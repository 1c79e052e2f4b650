// JSON schema 2020-12, and draft 7 where it differs.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

// Ignores `format` (an annotation), $dynamicRef, dangling or endless references and invalid patterns. Time and depth
// are limited; a value passes when they are exhausted.
class SchemaValidator {
 public:
  // From clean_schema().
  explicit SchemaValidator(nlohmann::ordered_json schema) : schema_(std::move(schema)) {}

  // First violation and its place; empty: valid.
  std::string complaint(const nlohmann::ordered_json& value) const;

 private:
  nlohmann::ordered_json schema_;
};

} // namespace ridge::text
