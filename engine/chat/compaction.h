// Compaction replaces a conversation that outgrows the context by a summary of the model.
#pragma once

#include <string>
#include <string_view>

namespace ridge::engine {

// The message that asks for the summary; `instructions` may be empty.
std::string compaction_request(std::string_view instructions);
// The user message that replaces the conversation.
std::string compacted_message(std::string_view summary);

} // namespace ridge::engine
