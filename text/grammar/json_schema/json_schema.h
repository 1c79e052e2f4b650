// JSON schema to GBNF: a grammar whose outputs are JSON texts that satisfy the schema.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

// Held: type (also lists), enum, const, properties, required, additionalProperties, patternProperties, propertyNames,
// minProperties, maxProperties, dependentRequired, dependentSchemas (up to 4 properties on which others depend), items,
// prefixItems, additionalItems, minItems, maxItems, minLength, maxLength, pattern (with look-ahead behind ^ only), the
// formats of formats(), minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (whole numbers and powers of
// ten), anyOf, oneOf, allOf, $ref within the document, nullable. Everything else is left out: what the grammar allows
// may break `not`, `if`, `contains`, `uniqueItems` and what would make it too large. Choices where schemas leave
// freedom:
// - Properties come in the schema's order, optional ones in any subset. As everywhere in this field, an object with
//   `properties` and no `additionalProperties` has no others but those it requires; without `properties` it may have
//   any.
// - oneOf is read as anyOf: nothing checks that a second alternative does not match as well.
// - A keyword about one type (minLength) in a schema without `type` implies that type.
// Where nothing satisfies the schema, the part that is to blame may be anything. Throws an Error that names the JSON
// path of what is no schema (clean_schema()).
std::string gbnf_from_json_schema(const nlohmann::ordered_json& schema);

class GrammarRules; // json_schema_rules.h
// Adds rules for one schema to a grammar and gives the expression that stands for it: a name or something in
// parentheses. References are looked up in `document`, which the schema may be a part of; `hint` names the rules. To be
// called within GrammarRules::write_schema().
std::string add_json_schema(GrammarRules& rules, const nlohmann::ordered_json& document,
                            const nlohmann::ordered_json& schema, const std::string& hint);

} // namespace ridge::text
