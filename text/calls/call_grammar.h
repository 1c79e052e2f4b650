// The grammar of an answer's calls: names, order of keys and every value are those of the tools' schemas. An answer
// without a call may have a schema, too.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/calls/tool.h"
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
};

// GBNF text. Marks that are control tokens of the vocabulary may be those tokens or their text; the tokenizer may be
// null. There may be no tools where there is an answer_schema. A call's parameters come in the schema's order, optional
// ones in any subset. Throws Error that names the tool for a schema that is not supported (json_schema.h), and for
// parameters that the syntax has no way to write.
std::string gbnf_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, const CallGrammarOptions& options,
                            const Tokenizer* tokenizer);

} // namespace ridge::text
