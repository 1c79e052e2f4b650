// JSON schema to GBNF: a grammar whose outputs are JSON texts that satisfy the schema.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::text {

// Supported: type (also lists), enum, const, properties, required, additionalProperties, items, prefixItems,
// additionalItems, minItems, maxItems, minLength, maxLength, pattern (without look-around and back-references), the
// formats date (without 29 February), time, date-time, uuid, email, hostname, ipv4, ipv6, uri; minimum, maximum,
// exclusiveMinimum, exclusiveMaximum (whole numbers for type number), anyOf, oneOf, allOf, $ref within the document,
// nullable. A schema that says nothing ({} or true) allows any JSON. Choices where schemas leave freedom:
// - Properties come in the schema's order, optional ones in any subset. As everywhere in this field, an object with
//   `properties` and no `additionalProperties` has no others; without `properties` it may have any.
// - oneOf is read as anyOf: nothing checks that a second alternative does not match as well.
// - A keyword about one type (minLength) in a schema without `type` implies that type.
// Annotations and x-… are ignored. Throws an Error that names the JSON path for any other keyword, for malformed ones,
// for schemas that nothing satisfies, and for schemas too large or too deeply nested.
std::string gbnf_from_json_schema(const nlohmann::ordered_json& schema);

class GrammarRules; // json_schema_rules.h
// Adds rules for one schema to a grammar and gives the expression that stands for it: a name or something in
// parentheses. References are looked up in `document`, which the schema may be a part of; `hint` names the rules.
std::string add_json_schema(GrammarRules& rules, const nlohmann::ordered_json& document,
                            const nlohmann::ordered_json& schema, const std::string& hint);

} // namespace ridge::text
