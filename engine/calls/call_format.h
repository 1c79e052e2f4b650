// How a chat template treats tools, calls and results, found by rendering samples.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::engine {

struct CallFormat {
  const text::CallSyntax* syntax = nullptr;
  bool takes_tools = false;
  bool takes_calls = false;
  bool takes_results = false;
  bool arguments_as_text = false; // JSON text, not an object
  bool null_content = false;      // content beside calls must be null, not ""
  bool several_calls = false;
  bool text_with_calls = false;
  bool text_before_calls = false; // text and calls in separate messages
  bool question_after_results = false;
};

CallFormat find_call_format(const text::ChatTemplate& chat_template);

// Messages and tools (null: none) in the template's form. Parts that the template cannot write become text: tools in
// the system message, calls, results.
struct CallMessages {
  nlohmann::ordered_json messages, tools;
};
CallMessages fit_messages(const CallFormat& format, nlohmann::ordered_json messages, nlohmann::ordered_json tools);

} // namespace ridge::engine
