// Tool-call syntaxes of model families, one row each (call_syntaxes.cpp). Parser, grammar and writer use the row.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace ridge::text {

enum class ArgumentForm {
  json,
  tagged, // key_open KEY key_end VALUE value_close …; strings verbatim, other values as JSON
  python, // KEY=VALUE, KEY=VALUE; Python or JSON values
  gemma,  // {KEY:VALUE,KEY:VALUE}; strings in `<|"|>`, unquoted keys
};

// Answer: open CALL between CALL … close. Call: call_open NAME name_end ARGUMENTS call_close.
//
// Marks are patterns: `$(a$|b$)` alternatives (one may be empty), `$D` an ID, `$I` the call's number, `$T` a JSON type.
// White space is written verbatim and matches any white space or none.
struct CallSyntax {
  std::string_view name = {};
  std::array<std::string_view, 4> known_by = {}; // substrings that all occur in the family's templates
  // Prefixes of `open` and `call_open`; the grammar applies from there.
  std::array<std::string_view, 4> triggers = {};
  bool at_start = false; // the answer begins with the call; triggers contain the tool's name, `$N`
  std::string_view open = {}, close = {}, call_open = {}, name_end = {}, call_close = {}, between = {};
  ArgumentForm arguments = ArgumentForm::json;
  std::string_view key_open = {}, key_end = {}, value_close = {};
  // Key end for values other than strings; empty: key_end.
  std::string_view key_end_other = {};
  bool cdata = false;              // strings may be in <![CDATA[ ]]>, and are if they contain `<`
  std::string_view value_pad = {}; // white space around a tagged value, not part of it
  std::string_view id = {};        // format of IDs: "functions.$N:$I"; empty: free
  int id_length = 0;               // required by the template, alphanumeric; 0: any
  bool messages = false;           // each call is a message with a header (ReasoningSplitter)
};

// Specific ones first.
std::span<const CallSyntax> call_syntaxes();
// nullptr: unknown.
const CallSyntax* find_call_syntax(std::string_view template_source);
// For templates without tools: JSON in `<tool_call>`.
const CallSyntax& generic_call_syntax();

} // namespace ridge::text
