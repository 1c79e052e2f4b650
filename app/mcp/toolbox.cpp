#include "app/mcp/toolbox.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ridge::app {
namespace {

using Json = McpClient::Json;

constexpr size_t kLongestShown = 600; // bytes of a call's arguments
constexpr int64_t kResultShare = 4;   // a result takes at most 1/4 of the context

std::string cut_to(std::string text, const text::Tokenizer& tokenizer, int64_t most_tokens) {
  constexpr size_t kLongToken = 16; // bytes; limits tokenization
  const auto most = static_cast<size_t>(most_tokens);
  const size_t all = text.size();
  const auto shorten = [&](size_t bytes) {
    text.resize(core::utf8_valid_prefix(std::string_view(text).substr(0, bytes)));
  };
  shorten(kLongToken * most);
  for (size_t tokens = tokenizer.encode(text).size(); tokens > most && !text.empty();
       tokens = tokenizer.encode(text).size())
    shorten(std::min(text.size() * most / tokens, text.size() - 1));
  if (text.size() < all) text += fmt::format("\n[{} of {} bytes; the rest was left out]", text.size(), all);
  return text;
}

} // namespace

Toolbox::Toolbox(const McpOptions& options) {
  for (McpServer& how : mcp_servers(options)) {
    Server server{.how = std::move(how)};
    try {
      server.client = std::make_unique<McpClient>(server.how);
    } catch (const Error& error) {
      server.problem = error.what();
    }
    servers_.push_back(std::move(server));
  }
}

void Toolbox::start(const engine::Notice& notice, const std::atomic<bool>* cancel) {
  for (Server& server : servers_) {
    try {
      if (!server.client) throw Error(server.problem);
      server.client->finish_start(cancel);
    } catch (const McpClient::Cancelled&) {
      throw;
    } catch (const Error& error) {
      server.client.reset();
      notice(error.what());
    }
  }
  name_tools();
}

// Colliding names get the server's name as prefix.
void Toolbox::name_tools() {
  tools_.clear();
  for (const Server& server : servers_)
    if (server.client)
      for (const McpClient::Tool& tool : server.client->tools())
        tools_.push_back({tool.name, server.how.name, tool.name, tool.description, tool.parameters});
  for (Tool& tool : tools_)
    if (std::ranges::count(tools_, tool.own_name, &Tool::own_name) > 1) tool.name = tool.server + "_" + tool.own_name;
}

const Toolbox::Tool* Toolbox::find(const std::string& name) const {
  const auto found = std::ranges::find_if(tools_, [&](const Tool& tool) { return tool.offered && tool.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

void Toolbox::offer(engine::Conversation& conversation, const std::optional<engine::ToolUse>& typed,
                    const engine::Notice& notice) {
  engine::ToolUse all = typed.value_or(engine::ToolUse{.definitions = Json::array()});
  for (Tool& tool : tools_) {
    const Json function = {{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}};
    try {
      engine::ToolUse alone{.definitions = Json::array()};
      engine::add_tool(alone, function);
      conversation.set_tools(std::move(alone)); // throws if it cannot be offered
      engine::add_tool(all, function);
      tool.offered = true;
    } catch (const Error& error) {
      tool.offered = false;
      notice(fmt::format("MCP server {}: {} is skipped: {}", tool.server, core::printable(tool.own_name),
                         core::printable(error.what(), 300)));
    }
  }
  if (!all.tools.empty()) conversation.set_tools(std::move(all));
}

bool Toolbox::renew(const engine::Notice& notice, const std::atomic<bool>* cancel) {
  bool any = false;
  for (Server& server : servers_) {
    if (!server.client || server.client->is_over() || !server.client->tools_have_changed()) continue;
    any = true;
    try {
      server.client->list_tools(cancel);
    } catch (const McpClient::Cancelled&) {
      throw;
    } catch (const Error& error) {
      notice(error.what());
    }
  }
  if (any) name_tools();
  return any;
}

McpClient& Toolbox::client_of(Server& server, const std::atomic<bool>* cancel) {
  if (!server.client || server.client->is_over()) {
    server.client.reset();
    server.client = std::make_unique<McpClient>(server.how);
    server.client->finish_start(cancel);
  }
  return *server.client;
}

std::string Toolbox::call(const text::ToolCall& call, const text::Tokenizer& tokenizer, int64_t context,
                          const engine::Notice& notice, const std::atomic<bool>* cancel) {
  const Tool* tool = find(call.name);
  if (!tool) return "There is no such tool.";
  const auto arguments = core::find_json<Json>(call.arguments);
  if (!arguments || !arguments->is_object()) return "The arguments are no JSON object.";
  Server& server = *std::ranges::find(servers_, tool->server, [](const Server& each) { return each.how.name; });
  try {
    const McpResult result = client_of(server, cancel).call(tool->own_name, *arguments, cancel);
    return (result.failed ? "Error: " : "") + cut_to(result.text, tokenizer, context / kResultShare);
  } catch (const McpClient::Cancelled&) {
    throw;
  } catch (const Error& error) {
    notice(error.what());
    return fmt::format("Error: {}", error.what());
  }
}

std::string call_line(const Toolbox::Tool& tool, const std::string& arguments) {
  return fmt::format("{}: {}({})", tool.server, core::printable(tool.own_name),
                     core::printable(arguments, kLongestShown));
}

} // namespace ridge::app
