// Probes, by rendering samples, which message orders a template accepts, and adapts conversations: many templates
// refuse or drop further system messages.
#pragma once

#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

namespace ridge::text {

struct ChatShape {
  bool system = false;        // allowed at the beginning
  bool systems = false;       // several at the beginning
  bool later_systems = false; // anywhere
  bool questions = false;     // consecutive user messages
  bool answers = false;       // consecutive assistant messages
  bool assistant_may_begin = false;
  bool user_message_optional = false;
  bool parts = false;            // content must be a list of parts
  bool thinking_member = false;  // reasoning is the member "thinking",
  bool reasoning_member = false; // or "reasoning"; default: "reasoning_content"
};

ChatShape find_chat_shape(const ChatTemplate& chat_template);

// `messages`: from read_messages(). Joins unsupported system messages with the first system or user message, joins
// equal roles, adds an empty user message where required.
nlohmann::ordered_json fit_shape(const ChatShape& shape, nlohmann::ordered_json messages);

// Last step before rendering.
void rename_members(const ChatShape& shape, nlohmann::ordered_json& messages);

} // namespace ridge::text
