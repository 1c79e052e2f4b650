// A test MCP server: mcp_server [MODE].
#include "core/json/parse.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <unistd.h>

namespace {

using Json = nlohmann::ordered_json;

void send(const Json& message) { std::cout << message.dump() << std::endl; }

void answer(const Json& request, const Json& result) {
  send({{"jsonrpc", "2.0"}, {"id", request["id"]}, {"result", result}});
}

Json tool(const char* name, const char* parameter) {
  return {{"name", name},
          {"description", std::string("The tool ") + name},
          {"inputSchema", {{"type", "object"}, {"properties", {{parameter, {{"type", "string"}}}}}}}};
}

bool changed = false;

Json list(const Json& parameters) {
  if (!parameters.contains("cursor"))
    return {{"tools", {tool("echo", "text"), {{"name", "a b"}, {"inputSchema", Json::object()}}}},
            {"nextCursor", "second"}};
  Json tools = {tool("act", "what"), {{"name", "odd"}, {"inputSchema", "no schema"}}};
  if (changed) tools.push_back(tool("later", "text"));
  return {{"tools", tools}};
}

Json text(const std::string& text, bool failed = false) {
  return {{"content", {{{"type", "text"}, {"text", text}}}}, {"isError", failed}};
}

[[noreturn]] void end(int status, const char* last) {
  std::fprintf(stderr, "something else\n%s\n", last);
  std::fflush(stderr);
  std::_Exit(status);
}

std::string ping_client() {
  send({{"jsonrpc", "2.0"}, {"id", "ping-1"}, {"method", "ping"}});
  send({{"jsonrpc", "2.0"}, {"id", 77}, {"method", "sampling/createMessage"}, {"params", Json::object()}});
  std::string first, second;
  std::getline(std::cin, first);
  std::getline(std::cin, second);
  return first + " " + second;
}

void act(const Json& request, const std::string& what) {
  if (what == "end") end(7, "out of luck");
  if (what == "ping") return answer(request, text(ping_client()));
  if (what == "fail") return answer(request, text("no such thing", true));
  if (what == "refuse")
    return send({{"jsonrpc", "2.0"}, {"id", request["id"]}, {"error", {{"code", -1}, {"message", "not\nso"}}}});
  if (what == "long") return answer(request, text(std::string(300'000, 'x') + "ü"));
  if (what == "parts")
    return answer(request, {{"content",
                             {{{"type", "text"}, {"text", "one"}},
                              {{"type", "image"}, {"data", "AAAA"}, {"mimeType", "image/png"}},
                              {{"type", "resource"}, {"resource", {{"uri", "file:///a"}, {"text", "two"}}}}}}});
  if (what == "variable") return answer(request, text(std::getenv("MCP_TEST") ? std::getenv("MCP_TEST") : "none"));
  if (what == "folder") return answer(request, text(::get_current_dir_name()));
  if (what == "change") {
    changed = true;
    send({{"jsonrpc", "2.0"}, {"method", "notifications/tools/list_changed"}});
    return answer(request, text("changed"));
  }
  if (what.starts_with("wait ")) { // reports to files that it waits, and what follows
    std::ofstream(what.substr(5)) << "waits" << std::endl;
    std::string line;
    std::getline(std::cin, line);
    std::ofstream(what.substr(5) + ".told") << line << std::endl;
  }
}

void handle(const std::string& mode, const Json& request) {
  const std::string method = request.value("method", "");
  if (method == "initialize") {
    if (mode == "mute") return;
    if (mode == "ends") end(3, "no such module");
    if (mode == "noisy")
      std::cout << "Listening…\n[1, 2\n\n{\"jsonrpc\": \"2.0\", \"id\": 4711, \"result\": 1}" << std::endl;
    answer(request, {{"protocolVersion", "2024-11-05"},
                     {"capabilities", {{"tools", Json::object()}}},
                     {"serverInfo", {{"name", "tiny"}, {"version", "1"}}}});
  }
  if (method == "tools/list") answer(request, mode == "no-list" ? Json{{"tools", 5}} : list(request["params"]));
  if (method != "tools/call") return;
  const Json& parameters = request["params"];
  if (parameters["name"] == "echo") return answer(request, text("heard " + parameters["arguments"].value("text", "")));
  act(request, parameters["arguments"].value("what", ""));
}

} // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  if (mode == "endless")
    while (std::cout << std::string(1 << 20, 'x')) {
    }
  for (std::string line; std::getline(std::cin, line);) handle(mode, ridge::core::parse_json(line, "request"));
}
