// Writes calls as a model's syntax has them: for templates that do not render calls, and for tests.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/calls/tool.h"

#include <span>
#include <string>

namespace ridge::text {

// Arguments that are no JSON object, as of a call that was cut off, are written as they are.
std::string write_calls(const CallSyntax& syntax, std::span<const ToolCall> calls);

} // namespace ridge::text
