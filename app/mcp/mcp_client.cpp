#include "app/mcp/mcp_client.h"

#include "app/mcp/http_channel.h"
#include "app/mcp/line_process.h"

#include "core/json/parse.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"
#include "text/calls/call_values.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::app {
namespace {

using Json = McpClient::Json;

constexpr const char* kProtocol = "2025-06-18"; // newest known version; older ones work alike
// Some servers download themselves at start.
constexpr auto kStartLimit = std::chrono::seconds(120), kListLimit = std::chrono::seconds(60),
               kCallLimit = std::chrono::seconds(600);
constexpr size_t kMaxTools = 256, kMaxPages = 64, kMaxDescription = 8192;
constexpr core::JsonLimits kMessageLimits = {.depth = 64, .containers = 200'000, .bytes = McpChannel::kMaxBytes};

std::string text_of(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

// Parts that are not text are only named.
std::string part_text(const Json& part) {
  const std::string type = text_of(part, "type");
  if (type == "text") return text_of(part, "text");
  if (type == "resource" && part.contains("resource")) {
    const std::string text = text_of(part["resource"], "text");
    return text.empty() ? fmt::format("[{}: not shown]", text_of(part["resource"], "uri")) : text;
  }
  if (type == "resource_link") return fmt::format("[{}: {}]", text_of(part, "name"), text_of(part, "uri"));
  const std::string what = text_of(part, "mimeType");
  return fmt::format("[{}: not shown]", what.empty() ? type : what);
}

McpResult result_from(const Json& json) {
  McpResult result;
  if (!json.is_object()) return result;
  result.failed = json.contains("isError") && json["isError"] == true;
  if (json.contains("content") && json["content"].is_array())
    for (const Json& part : json["content"]) {
      if (!result.text.empty()) result.text += '\n';
      result.text += part_text(part);
    }
  if (result.text.empty() && json.contains("structuredContent"))
    result.text = text::compact_json(json["structuredContent"]);
  return result;
}

std::unique_ptr<McpChannel> channel_to(const McpServer& server, const std::string& name) {
  if (!server.url.empty()) return std::make_unique<HttpChannel>(name, server);
  return std::make_unique<LineProcess>(name, server.command, server.environment, server.folder);
}

bool is_version(const std::string& text) { // such as 2025-06-18
  return !text.empty() && text.size() <= 32 && text.find_first_not_of("0123456789-") == std::string::npos;
}

} // namespace

McpClient::McpClient(const McpServer& server)
    : name_("MCP server " + server.name), channel_(channel_to(server, name_)) {
  start_id_ = send_request("initialize", {{"protocolVersion", kProtocol},
                                          {"capabilities", Json::object()},
                                          {"clientInfo", {{"name", "ridge"}, {"version", RIDGE_VERSION}}}});
}

void McpClient::finish_start(const std::atomic<bool>* cancel) {
  const Json about = result_of(start_id_, "initialize", kStartLimit, cancel);
  const std::string version = text_of(about, "protocolVersion");
  channel_->agree(is_version(version) ? version : kProtocol);
  send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  has_tools_ = about.is_object() && about.contains("capabilities") && about["capabilities"].is_object() &&
               about["capabilities"].contains("tools");
  list_tools(cancel);
}

void McpClient::list_tools(const std::atomic<bool>* cancel) {
  tools_have_changed_ = false;
  tools_.clear();
  if (!has_tools_) return;
  Json parameters = Json::object();
  for (size_t page = 0; page < kMaxPages; ++page) {
    const int64_t id = send_request("tools/list", parameters);
    const Json list = result_of(id, "tools/list", kListLimit, cancel);
    if (!list.is_object() || !list.contains("tools") || !list["tools"].is_array())
      throw_error("{}: answered tools/list without a list of tools", name_);
    for (const Json& tool : list["tools"]) {
      if (tools_.size() == kMaxTools) return;
      if (text_of(tool, "name").empty()) continue;
      std::string description = text_of(tool, "description").substr(0, kMaxDescription);
      description.resize(core::utf8_valid_prefix(description));
      tools_.push_back(
          {text_of(tool, "name"), std::move(description), tool.contains("inputSchema") ? tool["inputSchema"] : Json()});
    }
    const std::string next = text_of(list, "nextCursor");
    if (next.empty()) return;
    parameters["cursor"] = next;
  }
}

McpResult McpClient::call(const std::string& tool, const Json& arguments, const std::atomic<bool>* cancel) {
  const int64_t id = send_request("tools/call", {{"name", tool}, {"arguments", arguments}});
  try {
    return result_from(result_of(id, "tools/call", kCallLimit, cancel));
  } catch (const Refused& refusal) {
    return {refusal.what(), true};
  } catch (const Cancelled&) {
    send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", id}}}});
    throw;
  }
}

void McpClient::send(const Json& message) {
  channel_->send(text::compact_json(message), message.contains("id") && message.contains("method"));
}

int64_t McpClient::send_request(const char* method, const Json& parameters) {
  send({{"jsonrpc", "2.0"}, {"id", ++last_id_}, {"method", method}, {"params", parameters}});
  return last_id_;
}

Json McpClient::result_of(int64_t id, const char* method, std::chrono::seconds limit, const std::atomic<bool>* cancel) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string line;
  while (true) {
    switch (channel_->read(line, deadline, cancel)) {
    case McpChannel::Event::ended: over_ = true; throw_error("{} {}", name_, channel_->exit_summary());
    case McpChannel::Event::late:
      over_ = true;
      throw_error("{}: no answer to {} within {} s", name_, method, limit.count());
    case McpChannel::Event::cancelled: throw Cancelled(fmt::format("{}: {} was cancelled", name_, method));
    case McpChannel::Event::message: break;
    }
    const auto message = core::find_json<Json>(line, kMessageLimits);
    if (!message || !message->is_object()) continue; // servers may print other lines
    if (!message->contains("id") || message->contains("method")) {
      take(*message);
      continue;
    }
    if ((*message)["id"] != id) continue; // the reply to a cancelled request
    if (message->contains("error")) {
      const std::string why = text_of((*message)["error"], "message");
      throw Refused(fmt::format("{}: {}: {}", name_, method, core::printable(why.empty() ? "refused" : why, 300)));
    }
    return message->contains("result") ? (*message)["result"] : Json();
  }
}

// Answers pings; refuses other requests.
void McpClient::take(const Json& message) {
  const std::string method = text_of(message, "method");
  if (method == "notifications/tools/list_changed") tools_have_changed_ = true;
  if (!message.contains("id")) return;
  Json answer = {{"jsonrpc", "2.0"}, {"id", message["id"]}};
  if (method == "ping")
    answer["result"] = Json::object();
  else
    answer["error"] = {{"code", -32601}, {"message", "this client does not support this request"}};
  send(answer);
}

} // namespace ridge::app
