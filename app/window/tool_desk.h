// Calls MCP tools that the user confirms.
#pragma once

#include "app/mcp/toolbox.h"
#include "app/window/board.h"
#include "engine/chat/conversation.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace ridge::app {

class ToolDesk {
 public:
  // Both must outlive it. `cancel` ends waiting, after wake().
  ToolDesk(const McpOptions& options, Board& board, const std::atomic<bool>& cancel)
      : board_(board), cancel_(cancel), toolbox_(options) {}

  bool empty() const { return toolbox_.empty(); }
  // `conversation` may be null.
  void start(engine::Conversation* conversation);
  void offer(engine::Conversation& conversation, const engine::Notice& note);
  // Returns the message that shows the result.
  api::ChatMessage call(const text::ToolCall& call, const engine::LoadedModel& model,
                        engine::Conversation& conversation, int64_t context);

  // From any thread.
  void decide(const api::intent::AnswerTool& decision);
  void wake();

 private:
  void show(engine::Conversation* conversation);
  std::string result_of(const Toolbox::Tool& tool, const text::ToolCall& call, const engine::LoadedModel& model,
                        engine::Conversation& conversation, int64_t context);
  // Asks the user if that is undecided.
  bool is_allowed(const Toolbox::Tool& tool, const text::ToolCall& call, engine::Conversation& conversation);
  engine::Notice notice() {
    return [this](const std::string& line) { board_.tell(line); };
  }

  Board& board_;
  const std::atomic<bool>& cancel_;
  Toolbox toolbox_;
  uint64_t questions_ = 0;
  std::set<std::string> allowed_; // tools called without confirmation

  std::mutex mutex_; // guards the decision
  std::condition_variable decided_;
  std::optional<api::intent::ToolPermission> decision_;
};

} // namespace ridge::app
