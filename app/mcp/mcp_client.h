// One MCP server, spoken to by the Model Context Protocol: JSON-RPC in lines, over the standard streams of a program.
// It is taken for hostile: what it sends is read within limits, and nothing that it says is done but calls that a
// person has allowed.
#pragma once

#include "app/mcp/line_process.h"
#include "app/mcp/server_list.h"
#include "core/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::app {

// What a call of a tool gave.
struct McpResult {
  std::string text;
  bool failed = false; // the tool says so
};

class McpClient {
 public:
  using Json = nlohmann::ordered_json;

  // Starts the server and begins to talk. Throws Error where it does not start.
  explicit McpClient(const McpServer& server);

  // Waits until it has said what it is and has. These, and call(), throw Error where the server ends, gives no answer
  // in time or says that it cannot, and Cancelled where `cancel` is raised.
  void finish_start(const std::atomic<bool>* cancel);
  McpResult call(const std::string& tool, const Json& arguments, const std::atomic<bool>* cancel);

  struct Cancelled : Error {
    using Error::Error;
  };
  struct Refused : Error { // the server has answered with an error
    using Error::Error;
  };

  struct Tool {
    std::string name, description;
    Json parameters; // a schema, as the server has it
  };
  const std::vector<Tool>& tools() const { return tools_; }
  void list_tools(const std::atomic<bool>* cancel);
  bool tools_are_old() const { return tools_are_old_; } // the server has said that they are others now
  bool is_over() const { return over_; }                // no further call can be made

 private:
  int64_t send_request(const char* method, const Json& parameters);
  void send(const Json& message);
  Json result_of(int64_t id, const char* method, std::chrono::seconds limit, const std::atomic<bool>* cancel);
  void take(const Json& message); // that is no answer to a request

  const std::string name_;
  LineProcess process_;
  int64_t last_id_ = 0, start_id_ = 0;
  bool over_ = false; // it has ended, or does not answer
  bool has_tools_ = false, tools_are_old_ = false;
  std::vector<Tool> tools_;
};

} // namespace ridge::app
