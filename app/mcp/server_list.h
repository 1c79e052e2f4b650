// The MCP servers that a person names: programs that offer tools to a model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::app {

// As a person writes them, on the command line or in the configuration file.
struct McpOptions {
  std::vector<std::string> files;   // JSON with "mcpServers", as other clients have it
  std::vector<std::string> servers; // NAME=COMMAND ARGUMENTS
  bool empty() const { return files.empty() && servers.empty(); }
};

struct McpServer {
  std::string name;
  std::vector<std::string> command;                             // the program and its arguments; no shell reads them
  std::vector<std::pair<std::string, std::string>> environment; // beside ridge's own
  std::string folder;                                           // it works there; empty: where ridge does
};

// Throws Error for what is malformed, for two servers of one name, and for one that is reached over HTTP. A server that
// a file switches off ("disabled": true) is left out.
std::vector<McpServer> mcp_servers(const McpOptions& options);

// Those of one file's text; `label` stands for the file.
std::vector<McpServer> read_mcp_servers(std::string_view json, const std::string& label);
// NAME=COMMAND ARGUMENTS, in which '…' and "…" keep words together.
McpServer parse_mcp_server(std::string_view text);

} // namespace ridge::app
