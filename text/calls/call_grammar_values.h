// Grammar rules for argument values in notations other than JSON.
#pragma once

#include "text/calls/tool.h"
#include "text/grammar/json_schema/json_schema_parts.h"
#include "text/grammar/json_schema/json_schema_rules.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// Text without the mark's beginning (up to the second occurrence of its first character).
std::string text_without(GrammarRules& rules, std::string_view mark);

// Text before a closing mark. It may contain the mark if the following text is no mark, like CallParser.
std::string text_before(GrammarRules& rules, std::string_view close);

struct Property {
  std::string rule;
  bool required;
};
// Properties in this order, optional ones skippable. Respects small minProperties and maxProperties of `counts`, the
// object's schema.
std::string chain(GrammarRules& rules, const std::vector<Property>& properties, const std::string& separator,
                  const std::string& hint, const Json& counts);

// Functions return an expression for a value of `schema` (references into `document`). Throw Error for schemas that are
// too large or unsatisfiable.
class ValueRules {
 public:
  ValueRules(GrammarRules& rules, const Json& document, std::string gemma_quote)
      : rules_(rules), document_(document), parts_(document, rules), gemma_quote_(std::move(gemma_quote)) {}

  std::string json(const Json& schema, const std::string& hint);
  std::string python(const Json& schema, const std::string& hint);
  std::string gemma(const Json& schema, const std::string& hint, int depth = 0);
  // Verbatim strings up to `close`; else JSON.
  std::string tagged(const Json& schema, const std::string& hint, std::string_view close);

 private:
  std::string raw_string(const Json& part, std::string_view close); // never contains `close`
  std::string raw_string_unlike_json(const JsonTypes& types, const Json& part, std::string_view close);
  std::string gemma_part(const Json& part, const std::string& hint, int depth);
  std::string gemma_array(const Json& part, const std::string& hint, int depth);
  std::string gemma_object(const Json& part, const std::string& hint, int depth);
  std::string gemma_text(const std::string& inner) const;
  std::string gemma_literal(const Json& value) const;
  std::string gemma_anything(); // any value except objects and arrays

  GrammarRules& rules_;
  const Json& document_;
  SchemaParts parts_;
  const std::string gemma_quote_;
};

} // namespace ridge::text
