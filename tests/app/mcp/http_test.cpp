// MCP servers over HTTP, played by a server of the test.
#include "app/mcp/http_channel.h"
#include "app/mcp/toolbox.h"
#include "app/support.h"
#include "core/error.h"
#include "core/json/parse.h"
#include "support/http/fake_hub.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

using namespace ridge;
using namespace ridge::app;
using tests::eventually;
using tests::FakeServer;
using tests::HttpReply;
using tests::HttpRequest;
using Json = McpClient::Json;

namespace {

Json message_of(const HttpRequest& request) {
  return request.body.empty() ? Json() : core::parse_json<Json>(request.body, "request");
}

std::string answer_to(const Json& asked, const Json& result) {
  return Json{{"jsonrpc", "2.0"}, {"id", asked["id"]}, {"result", result}}.dump();
}

Json text_result(const std::string& text) { return {{"content", {{{"type", "text"}, {"text", text}}}}}; }

void send_json(const HttpReply& reply, const std::string& json, const std::string& headers = "") {
  reply.send(200, json, "Content-Type: application/json\r\n" + headers);
}

bool send_event(const HttpReply& reply, const std::string& json) {
  return reply.raw("event: message\r\nid: 1\r\ndata: " + json + "\r\n\r\n");
}

// Answers as a well-behaved server does, unless `first` has answered. A tool `wait` hangs until it is cancelled.
struct WebServer {
  std::function<bool(const HttpRequest&, const Json&, const HttpReply&)> first = [](const HttpRequest&, const Json&,
                                                                                    const HttpReply&) { return false; };
  std::string moved_from = "/old"; // leads to /mcp
  std::atomic<bool> ponged = false, cancelled = false, deleted = false;
  std::atomic<int> sessions = 0;

  FakeServer server{[this](const HttpRequest& request, const HttpReply& reply) { return handle(request, reply); }};

  std::string address() const { return server.address() + "/mcp"; }

  bool handle(const HttpRequest& request, const HttpReply& reply) {
    if (request.method == "DELETE") {
      deleted = true;
      return reply.send(200, ""), true;
    }
    if (request.path == moved_from) return reply.send(307, "", "Location: " + server.address() + "/mcp\r\n"), true;
    const Json message = message_of(request);
    if (first(request, message, reply)) return false;
    const std::string method = message.value("method", "");
    if (method == "initialize") {
      send_json(reply,
                answer_to(message, {{"protocolVersion", "2025-03-26"}, {"capabilities", {{"tools", Json::object()}}}}),
                fmt::format("Mcp-Session-Id: session-{}\r\n", ++sessions));
      return true;
    }
    if (!message.contains("id") || !message.contains("method")) {
      if (method == "notifications/cancelled") cancelled = true;
      if (message.contains("result")) ponged = true;
      return reply.send(202, ""), true;
    }
    reply.raw("HTTP/1.1 200 x\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n\r\n");
    reply.raw(": a comment\n\n");
    if (method == "tools/list") {
      const auto tool = [](const char* name) {
        return Json{
            {"name", name}, {"description", std::string("The tool ") + name}, {"inputSchema", {{"type", "object"}}}};
      };
      send_event(reply, answer_to(message, {{"tools", {tool("ask"), tool("wait")}}}));
    } else if (message["params"]["name"] == "ask") {
      send_event(reply, R"({"jsonrpc": "2.0", "id": "ping", "method": "ping"})");
      if (!eventually([&] { return ponged || server.stopping(); })) return false; // the client answers meanwhile
      send_event(reply, R"({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})");
      send_event(reply, answer_to(message, text_result("für dich")));
    } else {
      while (!server.stopping() && reply.raw(": still here\n\n"))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

McpServer web(const std::string& url) {
  return {.name = "web", .url = url, .headers = {"Authorization: Bearer sesame"}};
}

std::string start_problem(const McpServer& how) {
  try {
    McpClient client(how);
    client.finish_start(nullptr);
  } catch (const Error& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line;
  }
  return "(started)";
}

} // namespace

TEST_CASE("an MCP server over HTTP is asked in a session, with JSON and events for answers") {
  WebServer server;
  {
    McpClient client(web(server.address()));
    client.finish_start(nullptr);
    REQUIRE(client.tools().size() == 2);
    CHECK(client.tools()[0].name == "ask");
    CHECK(client.call("ask", Json::object(), nullptr).text == "für dich");
    CHECK(client.tools_have_changed());
  }
  CHECK(server.deleted);
  const std::vector<HttpRequest> requests = server.server.requests();
  REQUIRE(requests.size() == 6); // initialize, initialized, list, call, pong, DELETE
  for (size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    CHECK(requests[i].header("accept") == "application/json, text/event-stream");
    CHECK(requests[i].header("authorization") == "Bearer sesame");
    CHECK(requests[i].header("mcp-session-id") == (i == 0 ? "" : "session-1"));
    CHECK(requests[i].header("mcp-protocol-version") == (i == 0 ? "" : "2025-03-26"));
    if (requests[i].method == "POST") CHECK(requests[i].header("content-type") == "application/json");
  }
}

TEST_CASE("redirects of an MCP server are followed at its own address only, where the token may go") {
  WebServer server, other;
  CHECK(start_problem(web(server.server.address() + "/old")) == "(started)");
  server.first = [&](const HttpRequest&, const Json&, const HttpReply& reply) {
    reply.send(307, "", "Location: " + other.address() + "\r\n");
    return true;
  };
  const std::string problem = start_problem(web(server.address()));
  CHECK(problem.starts_with("MCP server web cannot be reached: http://127.0.0.1:"));
  CHECK(problem.find("redirects to " + other.address()) != std::string::npos);
  CHECK(other.server.requests().empty());
}

TEST_CASE("an MCP server over HTTP that does not behave is one clear line") {
  WebServer server;
  std::string type = "application/json", body;
  int status = 200;
  server.first = [&](const HttpRequest&, const Json&, const HttpReply& reply) {
    reply.send(status, body, "Content-Type: " + type + "\r\n");
    return true;
  };
  const auto problem = [&](int code, const std::string& kind, const std::string& text) {
    status = code, type = kind, body = text;
    return start_problem(web(server.address()));
  };
  CHECK(problem(401, "application/json", R"({"error": "invalid_token"})") ==
        "MCP server web answered with status 401: invalid_token (does it need a token?)");
  CHECK(problem(405, "text/html", "<h1>no</h1>") ==
        "MCP server web answered with status 405 (is this the address of an MCP server over streamable HTTP?)");
  CHECK(problem(500, "text/plain", "out of\x1b[2J luck\nmore") ==
        "MCP server web answered with status 500: out of\\x1b[2J luck");
  CHECK(problem(400, "application/json", R"({"error": {"code": -1, "message": "not so"}})") ==
        "MCP server web answered with status 400: not so");
  CHECK(problem(200, "text/html", "<h1>hello</h1>") == "MCP server web answered with status 200 and no message");
  CHECK(problem(202, "text/plain", "") == "MCP server web answered with status 202 and no message");
  CHECK(problem(200, "application/json", "[") == "MCP server web ended its response without a result");
  CHECK(problem(200, "text/event-stream", "data: {}\n\n") == "MCP server web ended its response without a result");
  CHECK(problem(200, "application/json", std::string((16 << 20) + 1, 'x')) ==
        "MCP server web answered with more than 16 MiB");
  CHECK(problem(200, "text/event-stream", "data: " + std::string(16 << 20, 'x')) ==
        "MCP server web sent too much data");

  server.first = [](const HttpRequest&, const Json& message, const HttpReply& reply) {
    send_json(reply, answer_to(message, Json::object()), "Mcp-Session-Id: a b\r\n");
    return true;
  };
  CHECK(start_problem(web(server.address())) == "MCP server web sent an invalid session id");
  CHECK(start_problem(web("http://127.0.0.1:1/mcp"))
            .starts_with("MCP server web cannot be reached at http://127.0.0.1:1/mcp: "));
  CHECK(start_problem(web("http://")).starts_with("MCP server web: http://: is not an https address"));
}

TEST_CASE("a call over HTTP that hangs can be stopped, and the server is told") {
  WebServer server;
  std::atomic<bool> cancel = false;
  McpClient client(web(server.address()));
  client.finish_start(nullptr);
  std::thread stopper([&] {
    CHECK(eventually([&] { return server.server.requests().size() == 4; }));
    cancel = true;
  });
  CHECK_THROWS_AS(client.call("wait", Json::object(), &cancel), McpClient::Cancelled);
  stopper.join();
  CHECK(eventually([&] { return server.cancelled.load(); }));
  CHECK(client.call("ask", Json::object(), nullptr).text == "für dich");
}

TEST_CASE("a session that an MCP server has ended is one line, after which there is a new session") {
  WebServer server;
  std::atomic<bool> forgets = true;
  server.first = [&](const HttpRequest& request, const Json& message, const HttpReply& reply) {
    if (message.value("method", "") != "tools/call" || request.header("mcp-session-id") != "session-1") return false;
    reply.send(404, "", "Content-Type: text/plain\r\n");
    return true;
  };
  McpClient client(web(server.address()));
  client.finish_start(nullptr);
  CHECK_THROWS_WITH(client.call("ask", Json::object(), nullptr), "MCP server web ended the session");
  CHECK(client.is_over()); // which the toolbox starts again
  McpClient again(web(server.address()));
  again.finish_start(nullptr);
  CHECK(again.call("ask", Json::object(), nullptr).text == "für dich");
}

TEST_CASE("a stream that breaks behind its answer spoils no later call") {
  WebServer server;
  std::atomic<bool> broken = false;
  server.first = [&](const HttpRequest&, const Json& message, const HttpReply& reply) {
    if (message.value("method", "") != "tools/call" || broken.exchange(true)) return false;
    const std::string event = "data: " + answer_to(message, text_result("once")) + "\n\n";
    reply.raw(fmt::format("HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "{:x}\r\n{}\r\n",
                          event.size(), event)); // the last chunk is missing
    return true;
  };
  McpClient client(web(server.address()));
  client.finish_start(nullptr);
  CHECK(client.call("ask", Json::object(), nullptr).text == "once");
  CHECK(client.call("ask", Json::object(), nullptr).text == "für dich");
  CHECK(!client.is_over());
}

TEST_CASE("events are read at every split, with each kind of line end") {
  const std::string text = ": comment\n\ndata: one\n\nevent: other\ndata: no\n\nid: 7\r\ndata:two\r\ndata: "
                           "more\r\n\r\ndata: three\r\rdata: cut";
  const std::vector<std::string> expected = {"one", "two\nmore", "three"};
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    std::vector<std::string> events;
    EventStream stream([&](std::string event) { events.push_back(std::move(event)); });
    CHECK(stream.add(std::string_view(text).substr(0, cut)));
    CHECK(stream.add(std::string_view(text).substr(cut)));
    CHECK(events == expected);
  }
}

TEST_CASE("an MCP server's address stands in a list or an option, its token there or in the environment") {
  ::setenv("RIDGE_TEST_KEY", "sesame", 1);
  ::setenv("RIDGE_MCP_TOKEN_MY_DOCS", "open", 1);
  const auto servers = read_mcp_servers(R"({"mcpServers": {
      "a": {"url": "http://localhost:3000/mcp", "headers": {"Authorization": "Bearer ${RIDGE_TEST_KEY}", "X-A": "$b"}},
      "my-docs": {"type": "http", "url": "https://example.org/mcp"}}})",
                                        "mcp.json");
  REQUIRE(servers.size() == 2);
  CHECK(servers[0].url == "http://localhost:3000/mcp");
  CHECK(servers[0].headers == std::vector<std::string>{"Authorization: Bearer sesame", "X-A: $b"});
  CHECK(servers[1].headers == std::vector<std::string>{"Authorization: Bearer open"});
  const McpServer one = parse_mcp_server("my.docs=https://example.org/mcp");
  CHECK(one.url == "https://example.org/mcp");
  CHECK(one.headers == std::vector<std::string>{"Authorization: Bearer open"});
  CHECK(one.command.empty());
  ::unsetenv("RIDGE_MCP_TOKEN_MY_DOCS");
  CHECK(parse_mcp_server("my.docs=https://example.org/mcp").headers.empty());
}

TEST_CASE("a token goes over plain HTTP only to this machine, or where that is allowed") {
  const auto problem = [](const std::string& url, bool plain = false) -> std::string {
    try {
      mcp_servers({.files = {}, .servers = {"web=" + url}, .plain_http = plain});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(problem("http://example.org/mcp").empty()); // has no token
  ::setenv("RIDGE_MCP_TOKEN_WEB", "open", 1);
  for (const char* local : {"http://localhost/mcp", "http://localhost:3000", "http://127.0.0.1:1/a?b",
                            "http://[::1]:1/", "https://example.org/mcp"})
    CHECK_MESSAGE(problem(local).empty(), local);
  for (const char* other : {"http://example.org/mcp", "http://127.0.0.1.example.org/", "http://localhost@example.org/",
                            "http://localhost.example.org", "http://192.168.0.2:80/mcp", "http://localhost:3000@b.org"})
    CHECK_MESSAGE(problem(other).find("--mcp-plain-http") != std::string::npos, other);
  CHECK(problem("http://example.org/mcp", true).empty());
  ::unsetenv("RIDGE_MCP_TOKEN_WEB");
  CHECK(problem("http://me:secret@example.org/").find("secret") == std::string::npos);
  CHECK(problem("http://me:secret@example.org/").find("unencrypted") != std::string::npos);
}

TEST_CASE("a chat has the tools of an MCP server over HTTP") {
  WebServer server;
  const tests::Result talk = tests::run(
      {RIDGE_BINARY, "chat", "-m", tests::tiny_model(), "--config", "none", "--mcp-server", "web=" + server.address()},
      "/tools\n");
  CHECK(talk.status == 0);
  CHECK(talk.out.find("web: The tool ask") != std::string::npos);
  CHECK(server.deleted);
}
