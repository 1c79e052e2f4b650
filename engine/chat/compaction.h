// Compaction: the model's own summary stands for a conversation that outgrows the context.
#pragma once

#include <string>
#include <string_view>

namespace ridge::engine {

// The message that asks for the summary; `instructions` may be empty.
std::string compaction_request(std::string_view instructions);
// The user's message that stands for the conversation.
std::string compacted_message(std::string_view summary);

} // namespace ridge::engine
