// What a chat template makes of tools, calls and results, found out by rendering a sample, and messages put into the
// form that it expects.
#pragma once

#include "text/calls/call_syntax.h"
#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::engine {

struct CallFormat {
  const text::CallSyntax* syntax = nullptr; // never null once found
  bool takes_tools = false;                 // the template writes the tools itself
  bool takes_calls = false;                 // … and the calls of earlier answers
  bool takes_results = false;               // … and messages of the role "tool"
  bool arguments_as_text = false;           // it wants them as JSON text, not as an object
  bool null_content = false;                // of a message with calls: null, not ""
  bool several_calls = false;               // a message may have several
  bool text_with_calls = false;             // it writes the text of a message with calls,
  bool text_before_calls = false;           // … or of one before it
  bool question_after_results = false;      // the user may speak when calls have their results
};

CallFormat find_call_format(const text::ChatTemplate& chat_template);

// A conversation as the template expects it. `messages` and `tools` are in the OpenAI form, `tools` null where there
// are none. What the template does not write is written here: tools into the system message, calls and results as text.
struct CallMessages {
  nlohmann::ordered_json messages, tools;
};
CallMessages fit_messages(const CallFormat& format, nlohmann::ordered_json messages, nlohmann::ordered_json tools);

} // namespace ridge::engine
