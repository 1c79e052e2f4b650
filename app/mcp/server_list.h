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
  bool plain_http = false; // headers, such as tokens, may go unencrypted to other machines
  bool empty() const { return files.empty() && servers.empty(); }
};

struct McpServer { // with a command or an address
  std::string name;
  std::vector<std::string> command;                             // program and arguments
  std::vector<std::pair<std::string, std::string>> environment; // added to ridge's
  std::string folder;                                           // working directory; empty: ridge's
  std::string url = {};                                         // of a server over HTTP
  std::vector<std::string> headers = {};                        // "Name: value", in each request
};

// Throws Error for malformed input and duplicate names. Skips disabled servers.
std::vector<McpServer> mcp_servers(const McpOptions& options);

// `label` names the file in errors.
std::vector<McpServer> read_mcp_servers(std::string_view json, const std::string& label);
// NAME=COMMAND ARGUMENTS, where '…' and "…" quote, or NAME=https://…. The bearer token of an address comes from the
// environment: RIDGE_MCP_TOKEN_NAME, in upper case and with _ for what is no letter or digit.
McpServer parse_mcp_server(std::string_view text);

} // namespace ridge::app
