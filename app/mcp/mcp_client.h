// Client of one MCP server: JSON-RPC over the server's standard streams or HTTP. The server is untrusted: its output is
// limited, and only permitted calls have effects.
#pragma once

#include "app/mcp/channel.h"
#include "app/mcp/server_list.h"
#include "core/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ridge::app {

struct McpResult {
  std::string text;
  bool failed = false;
};

class McpClient {
 public:
  using Json = nlohmann::ordered_json;

  // Starts the server. Throws Error.
  explicit McpClient(const McpServer& server);

  // This and call() throw Error if the server ends, times out or returns an error, and Cancelled if `cancel` is set.
  void finish_start(const std::atomic<bool>* cancel);
  McpResult call(const std::string& tool, const Json& arguments, const std::atomic<bool>* cancel);

  struct Cancelled : Error {
    using Error::Error;
  };
  struct Refused : Error {
    using Error::Error;
  };

  struct Tool {
    std::string name, description;
    Json parameters;
  };
  const std::vector<Tool>& tools() const { return tools_; }
  void list_tools(const std::atomic<bool>* cancel);
  bool tools_have_changed() const { return tools_have_changed_; } // the server announced a change
  bool is_over() const { return over_; }

 private:
  int64_t send_request(const char* method, const Json& parameters);
  void send(const Json& message);
  Json result_of(int64_t id, const char* method, std::chrono::seconds limit, const std::atomic<bool>* cancel);
  void take(const Json& message); // handles messages that are not replies

  const std::string name_;
  const std::unique_ptr<McpChannel> channel_;
  int64_t last_id_ = 0, start_id_ = 0;
  bool over_ = false; // the server ended or does not reply
  bool has_tools_ = false, tools_have_changed_ = false;
  std::vector<Tool> tools_;
};

} // namespace ridge::app
