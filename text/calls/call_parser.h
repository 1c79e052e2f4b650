// Finds the calls in an answer that arrives in pieces of any size, and reads them as they are written.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/calls/tool.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class CallParser {
 public:
  struct Delta {
    size_t index = 0; // of the call within the answer
    bool begins = false, ends = false;
    std::string id = {}, name = {}; // of a call that begins
    std::string arguments = {};     // the next part of a JSON object's text
  };
  struct Piece { // what became certain
    std::string content;
    std::vector<Delta> calls;
  };

  // Calls of other functions than `tools` are text. The syntax must outlive the parser. `id_seed`: for ids of calls
  // whose text has none.
  CallParser(const CallSyntax& syntax, std::vector<Tool> tools, uint64_t id_seed);
  CallParser(CallParser&&) noexcept;
  CallParser& operator=(CallParser&&) noexcept;
  ~CallParser();

  Piece push(std::string_view text);
  Piece finish(); // what is still held back; call once, when the text ends
  // A call that has begun and not ended when the text ends was cut short: its arguments are no whole JSON.

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// The calls of a whole text. What was cut short is left out.
std::vector<ToolCall> read_calls(CallParser& parser, std::string_view text, std::string* content = nullptr);

// Text to search an answer for: the syntax's triggers, those with `$N` once for each tool.
std::vector<std::string> call_triggers(const CallSyntax& syntax, std::span<const Tool> tools);

} // namespace ridge::text
