#include "engine/chat/compaction.h"

namespace ridge::engine {

std::string compaction_request(std::string_view instructions) {
  std::string text = "Write a summary of our conversation so far, from which you could go on without having read it. "
                     "Keep what was asked and decided, facts, names, numbers, code and files that matter, and what is "
                     "still open. Write the summary only.";
  if (!instructions.empty()) text.append(" ").append(instructions);
  return text;
}

std::string compacted_message(std::string_view summary) {
  return "This is a summary of our conversation so far:\n\n" + std::string(summary);
}

} // namespace ridge::engine
