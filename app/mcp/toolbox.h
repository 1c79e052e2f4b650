// The tools of all MCP servers. The caller asks the user before each call.
#pragma once

#include "app/mcp/mcp_client.h"
#include "engine/chat/conversation.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::app {

class Toolbox {
 public:
  // Starts the servers. Throws Error for an invalid list.
  explicit Toolbox(const McpOptions& options);

  // Waits for the servers' tools. Reports servers that failed and continues without them.
  void start(const engine::Notice& notice, const std::atomic<bool>* cancel = nullptr);

  struct Tool {
    std::string name;
    std::string server, own_name, description;
    McpClient::Json parameters;
    bool offered = false;
  };
  const std::vector<Tool>& tools() const { return tools_; }
  const Tool* find(const std::string& name) const; // nullptr: not offered
  bool empty() const { return servers_.empty(); }
  size_t servers() const { return servers_.size(); }

  // Offers these and `typed` (the user types their results). Reports tools that cannot be offered.
  void offer(engine::Conversation& conversation, const std::optional<engine::ToolUse>& typed,
             const engine::Notice& notice);
  // Lists the tools again of servers that announced a change. Returns false if none did.
  bool renew(const engine::Notice& notice, const std::atomic<bool>* cancel);

  // Returns the result for the model, cut to a quarter of `context` tokens, or the reason of a failure. The next call
  // restarts a server that has ended. Throws McpClient::Cancelled.
  std::string call(const text::ToolCall& call, const text::Tokenizer& tokenizer, int64_t context,
                   const engine::Notice& notice, const std::atomic<bool>* cancel);

 private:
  struct Server {
    McpServer how;
    std::unique_ptr<McpClient> client; // null: failed to start
    std::string problem;
  };
  void name_tools();
  McpClient& client_of(Server& server, const std::atomic<bool>* cancel);

  std::vector<Server> servers_;
  std::vector<Tool> tools_;
};

// "files: read_file({"path": "a.txt"})", without control characters.
std::string call_line(const Toolbox::Tool& tool, const std::string& arguments);

inline constexpr const char* kDeclined = "The user did not allow this call.";
inline constexpr const char* kStopped = "The user stopped this call.";

} // namespace ridge::app
