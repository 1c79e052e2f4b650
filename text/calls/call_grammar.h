// The grammar of an answer's calls: names, order of keys and every value are those of the tools' schemas. An answer
// without a call may have a schema, too.
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
  bool parallel = true; // several calls in one answer
  // What may come before the calls, where the grammar binds from the start of an answer: a section of reasoning, whose
  // markers these are. Empty: none.
  std::string_view reasoning_open = {}, reasoning_close = {};
  // The schema of an answer that calls nothing, where the grammar binds from the start; null: the answer is a call.
  const nlohmann::ordered_json* answer_schema = nullptr;
  size_t detail = 0; // of schema_details(): with how much of them schemas are written at first
};

// GBNF text. Schemas are such that clean_schema() let pass; what a grammar cannot hold of them (json_schema.h) and what
// the syntax has no way to write is left out. Marks that are control tokens of the vocabulary may be those tokens or
// their text; the tokenizer may be null. There may be no tools where there is an answer_schema. A call's parameters
// come in the schema's order, optional ones in any subset.
std::string gbnf_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, const CallGrammarOptions& options,
                            const Tokenizer* tokenizer);
// The same compiled: with less detail where the whole would be too large.
Grammar grammar_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, CallGrammarOptions options,
                           const Tokenizer* tokenizer);

} // namespace ridge::text
