// A streaming parser of tool calls.
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
    size_t index = 0;
    bool begins = false, ends = false;
    std::string id = {}, name = {};
    std::string arguments = {}; // next part of the JSON text
  };
  struct Piece {
    std::string content;
    std::vector<Delta> calls;
  };

  // Calls of functions not in `tools` are text. The syntax must outlive the parser. `id_seed`: for IDs of calls without
  // one.
  CallParser(const CallSyntax& syntax, std::vector<Tool> tools, uint64_t id_seed);
  CallParser(CallParser&&) noexcept;
  CallParser& operator=(CallParser&&) noexcept;
  ~CallParser();

  Piece push(std::string_view text);
  Piece finish(); // the rest; call once at the end
                  // A call that is cut short has incomplete JSON arguments.

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// Drops incomplete calls.
std::vector<ToolCall> read_calls(CallParser& parser, std::string_view text, std::string* content = nullptr);

// The syntax's triggers; `$N` once per tool.
std::vector<std::string> call_triggers(const CallSyntax& syntax, std::span<const Tool> tools);

} // namespace ridge::text
