// Which orders of messages a chat template takes, found out by rendering samples, and conversations put into such an
// order: many templates refuse a second system message, or two questions in a row, or leave them out without a word.
#pragma once

#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

namespace ridge::text {

struct ChatShape {
  bool system = false;           // it takes a system message at the beginning,
  bool systems = false;          // … several of them there,
  bool later_systems = false;    // … and others anywhere
  bool questions = false;        // it takes messages of the user one after the other,
  bool answers = false;          // … and of the assistant
  bool answer_first = false;     // a conversation may begin with the assistant's message
  bool no_question = false;      // there may be none of the user's at all
  bool parts = false;            // it takes contents as lists of parts only
  bool thinking_member = false;  // it reads an answer's reasoning from the member "thinking",
  bool reasoning_member = false; // … or "reasoning", instead of "reasoning_content"
};

ChatShape find_chat_shape(const ChatTemplate& chat_template);

// The conversation in an order that the template takes; `messages` are as read_messages() gives them. Messages of the
// system that cannot stay where they are are joined with the first one, or open the user's first message; others are
// joined with their neighbour of the same role; where the user has to speak, there is an empty message.
nlohmann::ordered_json fit_shape(const ChatShape& shape, nlohmann::ordered_json messages);

// Contents and reasoning as the template reads them: the last step before it is rendered.
void fit_members(const ChatShape& shape, nlohmann::ordered_json& messages);

} // namespace ridge::text
