// Grammar rules for the values of a call's arguments, in the notations that are not JSON.
#pragma once

#include "text/calls/tool.h"
#include "text/grammar/json_schema/json_schema_parts.h"
#include "text/grammar/json_schema/json_schema_rules.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

// Any text without a mark in it, more precisely: without the mark's beginning, up to where its first character comes
// again.
std::string text_without(GrammarRules& rules, std::string_view mark);

// Any text that a value may have before its closing mark: the mark itself too, where what comes behind it is no mark,
// as CallParser reads it.
std::string text_before(GrammarRules& rules, std::string_view close);

struct Property {
  std::string rule; // of the key with its value
  bool required;
};
// The properties in this order, optional ones left out at will, with `separator` between them. As many as `counts`, the
// schema of the object, says by minProperties and maxProperties, where these are small numbers.
std::string chain(GrammarRules& rules, const std::vector<Property>& properties, const std::string& separator,
                  const std::string& hint, const Json& counts);

// All functions give an expression for a value of `schema`, whose references are looked up in `document`. They throw
// Error for schemas that are too large, or that nothing satisfies.
class ValueRules {
 public:
  // `gemma_quote`: the expression for what stands around a string in Gemma's notation.
  ValueRules(GrammarRules& rules, const Json& document, std::string gemma_quote)
      : rules_(rules), document_(document), parts_(document, rules), gemma_quote_(std::move(gemma_quote)) {}

  std::string json(const Json& schema, const std::string& hint);
  std::string python(const Json& schema, const std::string& hint);
  std::string gemma(const Json& schema, const std::string& hint, int depth = 0);
  // Strings as they are, up to `close`; everything else as JSON.
  std::string tagged(const Json& schema, const std::string& hint, std::string_view close);

 private:
  // These take a part of one type or a list of values, as SchemaParts::alternatives() gives it.
  std::string raw_string(const Json& part, std::string_view close); // `close` does not occur in it
  std::string raw_string_beside(const JsonTypes& types, const Json& part, std::string_view close);
  std::string gemma_part(const Json& part, const std::string& hint, int depth);
  std::string gemma_array(const Json& part, const std::string& hint, int depth);
  std::string gemma_object(const Json& part, const std::string& hint, int depth);
  std::string gemma_text(const std::string& inner) const;
  std::string gemma_literal(const Json& value) const;
  std::string gemma_anything(); // but objects and arrays

  GrammarRules& rules_;
  const Json& document_;
  SchemaParts parts_;
  const std::string gemma_quote_;
};

} // namespace ridge::text
