// Writes calls for templates without them and for tests.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/calls/tool.h"

#include <span>
#include <string>

namespace ridge::text {

// Invalid arguments (cut-off calls) stay verbatim.
std::string write_calls(const CallSyntax& syntax, std::span<const ToolCall> calls);

} // namespace ridge::text
