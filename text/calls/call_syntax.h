// How model families write tool calls: one row of data per syntax. The parser, the grammar and the writer all work from
// the row, so a new family is a new row in call_syntaxes.cpp.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace ridge::text {

// How a call's arguments are written, between the marks `name_end` and `call_close`.
enum class ArgumentForm {
  json,   // a JSON object
  tagged, // key_open KEY key_end VALUE value_close, for each; strings as they are, other values as JSON
  python, // KEY=VALUE, KEY=VALUE; values as in Python or JSON
  gemma,  // {KEY:VALUE,KEY:VALUE}; strings in `<|"|>`, keys without quotes
};

// A whole answer with calls: open CALL between CALL … close.
// One call: call_open NAME name_end ARGUMENTS call_close.
//
// The marks are patterns. `$(a$|b$)` is one of the alternatives, of which one may be empty; `$D` is an id, `$I` the
// call's number, `$T` a JSON type's name. White space is written as it stands, and read as any white space or none.
struct CallSyntax {
  std::string_view name = {};
  std::array<std::string_view, 4> known_by = {}; // a template of this family contains all of these
  // Text that opens a call or the section of calls. From there on the answer is held to the grammar. Each is the
  // beginning of what `open` and `call_open` write.
  std::array<std::string_view, 4> triggers = {};
  bool at_start = false; // the answer begins with the call; its triggers have the tool's name, `$N`, in them
  std::string_view open = {}, close = {}, call_open = {}, name_end = {}, call_close = {}, between = {};
  ArgumentForm arguments = ArgumentForm::json;
  std::string_view key_open = {}, key_end = {}, value_close = {};
  // Where strings and other values are marked differently: what ends the key of any other value. Empty: as `key_end`.
  std::string_view key_end_other = {};
  bool cdata = false;              // strings may stand between <![CDATA[ and ]]>, and do where they contain `<`
  std::string_view value_pad = {}; // white space on both sides of a tagged value, part of the markup
  std::string_view id = {};        // how ids follow from the call: "functions.$N:$I"; empty: free
  int id_length = 0;               // that the template demands of ids, letters and digits; 0: any
  bool messages = false;           // a call is a message of its own, with a header (ReasoningSplitter)
};

// The rows, the more particular ones first.
std::span<const CallSyntax> call_syntaxes();
// The row that a chat template's source belongs to; null: none is known.
const CallSyntax* find_call_syntax(std::string_view template_source);
// What ridge asks of models whose templates know no tools: the most common syntax, `<tool_call>` around JSON.
const CallSyntax& generic_call_syntax();

} // namespace ridge::text
