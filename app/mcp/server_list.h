// The list of MCP servers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::app {

struct McpOptions {
  std::vector<std::string> files; // with "mcpServers"
  std::vector<std::string> servers;
  bool empty() const { return files.empty() && servers.empty(); }
};

struct McpServer {
  std::string name;
  std::vector<std::string> command;                             // program and arguments
  std::vector<std::pair<std::string, std::string>> environment; // added to ridge's
  std::string folder;                                           // working directory; empty: ridge's
};

// Throws Error for malformed input, duplicate names and HTTP servers. Skips disabled servers.
std::vector<McpServer> mcp_servers(const McpOptions& options);

// `label` names the file in errors.
std::vector<McpServer> read_mcp_servers(std::string_view json, const std::string& label);
// NAME=COMMAND ARGUMENTS; '…' and "…" quote.
McpServer parse_mcp_server(std::string_view text);

} // namespace ridge::app
