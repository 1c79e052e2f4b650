// JSON schema to GBNF.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

// Supports: type (also lists), enum, const, properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties, dependentRequired, dependentSchemas (≤ 4), items, prefixItems,
// additionalItems, minItems, maxItems, minLength, maxLength, pattern (look-ahead only after ^), formats(), minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (integers, powers of ten), anyOf, oneOf, allOf, local $ref,
// nullable. Ignores the rest (`not`, `if`, `contains`, `uniqueItems`) and oversized parts.
// - Properties keep their order; without `additionalProperties`, `properties` excludes others, except required ones.
// - oneOf counts as anyOf. Without `type`, keywords imply it.
// Unsatisfiable parts may be anything. Throws Error with the JSON path for invalid schemas (clean_schema()).
std::string gbnf_from_json_schema(const nlohmann::ordered_json& schema);

class GrammarRules;
// Adds rules for one schema; returns an expression (a name or a group). `document` resolves references, `hint` names
// rules. Call it within GrammarRules::write_schema().
std::string add_json_schema(GrammarRules& rules, const nlohmann::ordered_json& document,
                            const nlohmann::ordered_json& schema, const std::string& hint);

} // namespace ridge::text
