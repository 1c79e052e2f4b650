#include "app/mcp/server_list.h"

#include "core/error.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "core/strings/loopback.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "text/calls/tool.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxListBytes = 1 << 20;
constexpr size_t kMaxServers = 32, kMaxName = 40;

bool is_server_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, text::is_name_char);
}

// A string without zero bytes.
std::string text_at(const Json& value, const std::string& place) {
  if (!value.is_string()) throw_error("{}: expected a string", place);
  std::string text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) throw_error("{}: contains a zero byte", place);
  return text;
}

std::vector<std::string> words_at(const Json& value, const std::string& place) {
  if (!value.is_array()) throw_error("{}: expected a list of strings", place);
  std::vector<std::string> words;
  for (const Json& word : value) words.push_back(text_at(word, place));
  return words;
}

bool is_address(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

std::string address_at(const std::string& url, const std::string& place) {
  if (!is_address(url) || !std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; }))
    throw_error("{}: \"{}\" is not an address that begins with http:// or https://", place, core::printable(url, 200));
  return url;
}

// With the values of environment variables in place of ${NAME}.
std::string filled_in(const std::string& text, const std::string& place) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.compare(at, 2, "${") == 0 ? text.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      filled += text[at++];
      continue;
    }
    const std::string variable = text.substr(at + 2, end - at - 2);
    const char* value = std::getenv(variable.c_str());
    if (!value) throw_error("{}: the environment variable {} is not set", place, core::printable(variable, kMaxName));
    filled += value;
    at = end + 1;
  }
  return filled;
}

std::string header_line(const std::string& name, const std::string& value, const std::string& place) {
  if (name.empty() || !std::ranges::all_of(name, text::is_name_char))
    throw_error("{}: \"{}\" is not a valid header name", place, core::printable(name, kMaxName));
  if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }))
    throw_error("{}.{}: contains a control character", place, name);
  return name + ": " + value;
}

// The token of a server by its name, where the environment has one and no header is in its place.
void add_token(McpServer& server) {
  std::string variable = "RIDGE_MCP_TOKEN_";
  for (const unsigned char c : server.name) variable += std::isalnum(c) ? static_cast<char>(std::toupper(c)) : '_';
  const bool has = std::ranges::any_of(
      server.headers, [](const std::string& line) { return core::lower(line).starts_with("authorization:"); });
  if (const char* token = std::getenv(variable.c_str()); token && *token && !has)
    server.headers.push_back(header_line("Authorization", "Bearer " + std::string(token), variable));
}

void read_address(McpServer& server, const Json& json, const std::string& place) {
  const std::string type = json.contains("type") ? text_at(json["type"], place + ".type") : "http";
  if (type != "http" && type != "streamable-http" && type != "streamableHttp")
    throw_error("{}: unknown server type \"{}\"; expected stdio or http", place, core::printable(type, kMaxName));
  if (!json.contains("url")) throw_error("{}: \"url\" is missing", place);
  server.url = address_at(text_at(json["url"], place + ".url"), place + ".url");
  if (json.contains("headers")) {
    if (!json["headers"].is_object()) throw_error("{}.headers: expected an object of strings", place);
    for (const auto& [key, value] : json["headers"].items())
      server.headers.push_back(
          header_line(key, filled_in(text_at(value, place + ".headers"), place + ".headers"), place + ".headers"));
  }
  add_token(server);
}

// localhost, 127.… and [::1]; anything unusual counts as another machine.
bool is_this_machine(std::string_view host) {
  const size_t port = host.find_last_not_of("0123456789");
  if (port != std::string_view::npos && host[port] == ':') host = host.substr(0, port);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return core::is_loopback(std::string(host));
}

// Headers and names before a host count as secrets.
void check_encrypted(const McpServer& server) {
  constexpr std::string_view kPlain = "http://";
  if (!server.url.starts_with(kPlain)) return;
  const std::string_view rest = std::string_view(server.url).substr(kPlain.size());
  const std::string_view place = rest.substr(0, rest.find_first_of("/?#"));
  const size_t name = place.rfind('@');
  if (is_this_machine(place) || (server.headers.empty() && name == std::string_view::npos)) return;
  throw_error("MCP server {}: its token or other headers would go unencrypted to {}; use https://, or allow it with "
              "--mcp-plain-http",
              server.name, core::printable(place.substr(name == std::string_view::npos ? 0 : name + 1), 200));
}

std::optional<McpServer> read_server(const std::string& name, const Json& json, const std::string& label) {
  const std::string place = fmt::format("{}: mcpServers: {}", label, core::printable(name, kMaxName));
  if (!is_server_name(name))
    throw_error("{}: expected a name of at most {} letters, digits and characters of \"_-./\"", place, kMaxName);
  if (!json.is_object()) throw_error("{}: expected an object with \"command\" or \"url\"", place);
  if (json.contains("disabled") && json["disabled"] == true) return std::nullopt;
  McpServer server{.name = name};
  if (json.contains("url") || (json.contains("type") && json["type"] != "stdio")) {
    read_address(server, json, place);
    return server;
  }
  if (!json.contains("command")) throw_error("{}: \"command\" is missing (or \"url\" for a server over HTTP)", place);
  server.command = {text_at(json["command"], place + ".command")};
  if (server.command[0].empty()) throw_error("{}.command: is empty", place);
  if (json.contains("args"))
    for (std::string& word : words_at(json["args"], place + ".args")) server.command.push_back(std::move(word));
  if (json.contains("env")) {
    if (!json["env"].is_object()) throw_error("{}.env: expected an object of strings", place);
    for (const auto& [key, value] : json["env"].items()) {
      if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos)
        throw_error("{}.env: \"{}\" is not a valid variable name", place, core::printable(key, kMaxName));
      server.environment.emplace_back(key, text_at(value, place + ".env"));
    }
  }
  if (json.contains("cwd")) server.folder = text_at(json["cwd"], place + ".cwd");
  return server;
}

} // namespace

std::vector<McpServer> read_mcp_servers(std::string_view text, const std::string& label) {
  const Json json = core::parse_json(text, label, {.depth = 16});
  if (!json.is_object() || !json.contains("mcpServers") || !json["mcpServers"].is_object())
    throw_error("{}: expected {{\"mcpServers\": {{NAME: {{\"command\": …}}}}}}", label);
  std::vector<McpServer> servers;
  for (const auto& [name, server] : json["mcpServers"].items())
    if (auto read = read_server(name, server, label)) servers.push_back(std::move(*read));
  return servers;
}

McpServer parse_mcp_server(std::string_view text) {
  const size_t equals = text.find('=');
  McpServer server{.name = std::string(text.substr(0, equals))};
  if (equals == std::string_view::npos || !is_server_name(server.name))
    throw Error(fmt::format("--mcp-server: expected NAME=COMMAND ARGUMENTS or NAME=https://…, found \"{}\"",
                            core::printable(text, 100)),
                Error::kUsage);
  if (is_address(text.substr(equals + 1))) {
    server.url = address_at(std::string(text.substr(equals + 1)), "--mcp-server " + server.name);
    add_token(server);
    return server;
  }
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (const char c : text.substr(equals + 1)) {
    if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? 0 : c;
      in_word = true;
    } else if (!quote && (c == ' ' || c == '\t')) {
      if (std::exchange(in_word, false)) server.command.push_back(std::exchange(word, {}));
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw Error(fmt::format("--mcp-server {}: the closing {} is missing", server.name, quote), Error::kUsage);
  if (in_word) server.command.push_back(word);
  if (server.command.empty() || server.command[0].empty())
    throw Error(fmt::format("--mcp-server {}: the command is missing", server.name), Error::kUsage);
  return server;
}

std::vector<McpServer> mcp_servers(const McpOptions& options) {
  std::vector<McpServer> servers;
  for (const std::string& file : options.files)
    for (McpServer& server : read_mcp_servers(core::read_text_file(file, kMaxListBytes), file))
      servers.push_back(std::move(server));
  for (const std::string& text : options.servers) servers.push_back(parse_mcp_server(text));
  if (servers.size() > kMaxServers)
    throw_error("{} MCP servers are configured, but at most {} can run", servers.size(), kMaxServers);
  if (!options.plain_http) std::ranges::for_each(servers, check_encrypted);
  for (size_t i = 0; i < servers.size(); ++i)
    if (std::ranges::count(servers, servers[i].name, &McpServer::name) > 1)
      throw_error("two MCP servers have the name {}", servers[i].name);
  return servers;
}

} // namespace ridge::app
