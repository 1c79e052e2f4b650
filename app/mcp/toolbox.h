// The tools of all MCP servers that a person named, as a model may call them. To ask the person before each call is the
// caller's part.
#pragma once

#include "app/mcp/mcp_client.h"
#include "engine/conversation.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::app {

class Toolbox {
 public:
  // Starts the servers. Throws Error for what no server can be; one that does not start is told by start().
  explicit Toolbox(const McpOptions& options);

  // Waits until they have said what they have. A line says why one is not there; the others go on.
  void start(const engine::Notice& notice, const std::atomic<bool>* cancel = nullptr);

  struct Tool {
    std::string name; // by which a model calls it
    std::string server, own_name, description;
    McpClient::Json parameters;
    bool offered = false; // to the model
  };
  const std::vector<Tool>& tools() const { return tools_; }
  const Tool* find(const std::string& name) const; // that is offered; null: there is none
  bool empty() const { return servers_.empty(); }
  size_t servers() const { return servers_.size(); }

  // The conversation's tools become these and `typed`, whose results a person types. A line says why one is left out
  // that no model can be offered.
  void offer(engine::Conversation& conversation, const std::optional<engine::ToolUse>& typed,
             const engine::Notice& notice);
  // Where a server has said that its tools are others now, they are asked for again. False: none has.
  bool renew(const engine::Notice& notice, const std::atomic<bool>* cancel);

  // What the model is told: the tool's result, cut to a quarter of the context of so many tokens, or why there is none.
  // A server that has ended gives one line, and is started again for the next call. Throws McpClient::Cancelled where
  // `cancel` is raised.
  std::string call(const text::ToolCall& call, const text::Tokenizer& tokenizer, int64_t context,
                   const engine::Notice& notice, const std::atomic<bool>* cancel);

 private:
  struct Server {
    McpServer how;
    std::unique_ptr<McpClient> client; // null: it did not start
    std::string problem;               // why not
  };
  void name_tools();
  McpClient& client_of(Server& server, const std::atomic<bool>* cancel);

  std::vector<Server> servers_;
  std::vector<Tool> tools_;
};

// The line that a person is asked about: "files: read_file({"path": "a.txt"})", without what could steer a terminal.
std::string call_line(const Toolbox::Tool& tool, const std::string& arguments);

// What the model is told of a call that a person does not want.
inline constexpr const char* kDeclined = "The user did not allow this call.";
inline constexpr const char* kStopped = "The user stopped this call.";

} // namespace ridge::app
