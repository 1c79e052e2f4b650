// The grammar of tool calls in an answer, from the tools' schemas. Answers without calls may have a schema, too.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/calls/tool.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer/tokenizer.h"

#include <span>
#include <string>
#include <string_view>

namespace ridge::text {

struct CallGrammarOptions {
  bool parallel = true;
  // Markers of reasoning before the calls; empty: none.
  std::string_view reasoning_open = {}, reasoning_close = {};
  // Schema of an answer without calls; nullptr: a call is required.
  const nlohmann::ordered_json* answer_schema = nullptr;
  size_t detail = 0; // initial index in schema_details()
};

// GBNF. Schemas must come from clean_schema(). Ignores what the grammar (json_schema.h) or syntax cannot express. Marks
// that are control tokens match as token or text; the tokenizer may be null. `tools` may be empty with an
// answer_schema. Parameters keep the schema's order.
std::string gbnf_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, const CallGrammarOptions& options,
                            const Tokenizer* tokenizer);
// With less detail if too large.
Grammar grammar_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, CallGrammarOptions options,
                           const Tokenizer* tokenizer);

} // namespace ridge::text
