// MCP servers. See support/mcp/server.cpp.
#include "app/mcp/line_process.h"
#include "app/mcp/toolbox.h"
#include "core/error.h"
#include "support/temporary_folder.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace ridge;
using namespace ridge::app;
using tests::eventually;
using Json = McpClient::Json;

namespace {

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string problem_of_json(const std::string& json) {
  return problem_of([&] { read_mcp_servers(json, "mcp.json"); });
}

McpServer server(const std::string& mode) { return {"tiny", {RIDGE_MCP_SERVER, mode}, {}, ""}; }

McpClient& started(McpClient& client) {
  client.finish_start(nullptr);
  return client;
}

McpResult act(McpClient& client, const std::string& what) { return client.call("act", {{"what", what}}, nullptr); }

} // namespace

TEST_CASE("MCP servers are named in the form of other clients, or as a name and a command") {
  const auto servers = read_mcp_servers(R"({"mcpServers": {
      "files": {"command": "npx", "args": ["-y", "some-server", "/a b"], "env": {"KEY": "1=2"}, "cwd": "/tmp"},
      "off": {"command": "x", "disabled": true},
      "typed": {"type": "stdio", "command": "uvx"}}, "other": 1})",
                                        "mcp.json");
  REQUIRE(servers.size() == 2);
  CHECK(servers[0].name == "files");
  CHECK(servers[0].command == std::vector<std::string>{"npx", "-y", "some-server", "/a b"});
  CHECK(servers[0].environment == LineProcess::Environment{{"KEY", "1=2"}});
  CHECK(servers[0].folder == "/tmp");
  CHECK(servers[1].command == std::vector<std::string>{"uvx"});

  const McpServer one = parse_mcp_server(R"(time=uvx  "mcp time" --zone='Europe/Berlin' "" a=b)");
  CHECK(one.name == "time");
  CHECK(one.command == std::vector<std::string>{"uvx", "mcp time", "--zone=Europe/Berlin", "", "a=b"});
}

TEST_CASE("what names no MCP server is one line that says where") {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "mcp.json: "},
      {"[]", "expected {\"mcpServers\""},
      {R"({"mcpServers": []})", "expected {\"mcpServers\""},
      {R"({"mcpServers": {"a": 1}})", "mcpServers: a: expected an object with \"command\" or \"url\""},
      {R"({"mcpServers": {"a": {}}})", "mcpServers: a: \"command\" is missing (or \"url\" for a server over HTTP)"},
      {R"({"mcpServers": {"a": {"command": ""}}})", "a.command: is empty"},
      {R"({"mcpServers": {"a": {"command": ["x"]}}})", "a.command: expected a string"},
      {R"({"mcpServers": {"a": {"command": "x\u0000y"}}})", "a.command: contains a zero byte"},
      {R"({"mcpServers": {"a": {"command": "x", "args": "y"}}})", "a.args: expected a list of strings"},
      {R"({"mcpServers": {"a": {"command": "x", "args": [1]}}})", "a.args: expected a string"},
      {R"({"mcpServers": {"a": {"command": "x", "env": {"B=C": "1"}}}})",
       "a.env: \"B=C\" is not a valid variable name"},
      {R"({"mcpServers": {"a": {"type": "http"}}})", "mcpServers: a: \"url\" is missing"},
      {R"({"mcpServers": {"a": {"type": "sse", "url": "https://h/sse"}}})", "unknown server type \"sse\""},
      {R"({"mcpServers": {"a": {"url": "file:///etc"}}})", "a.url: \"file:///etc\" is not an address"},
      {R"({"mcpServers": {"a": {"url": "https://h/a b"}}})", "a.url: \"https://h/a b\" is not an address"},
      {R"({"mcpServers": {"a": {"url": "https://h", "headers": ["x"]}}})", "a.headers: expected an object of strings"},
      {R"({"mcpServers": {"a": {"url": "https://h", "headers": {"X": "a\nb"}}}})", "X: contains a control character"},
      {R"({"mcpServers": {"a": {"url": "https://h", "headers": {"X: y": "z"}}}})",
       "\"X: y\" is not a valid header name"},
      {R"({"mcpServers": {"a": {"url": "https://h", "headers": {"X": "${NOT_SET_HERE}"}}}})",
       "the environment variable NOT_SET_HERE is not set"},
      {R"({"mcpServers": {"\u001b[2J": {"command": "x"}}})", "expected a name of at most"},
      {R"({"mcpServers": {"": {"command": "x"}}})", "expected a name of at most"},
  };
  for (const auto& [json, expected] : cases) {
    const std::string problem = problem_of_json(json);
    CHECK_MESSAGE(problem.find(expected) != std::string::npos, json, ": ", problem);
    CHECK(problem.starts_with("mcp.json: "));
    CHECK(problem.find('\n') == std::string::npos);
    CHECK(problem.find('\033') == std::string::npos);
  }
  for (const char* text :
       {"", "time", "=uvx", "a b=uvx", "time=", "time=  ", "time=\"uvx", "time=\"\"", "a=http://h b"})
    CHECK_MESSAGE(problem_of([&] { parse_mcp_server(text); }).starts_with("--mcp-server"), text);
  CHECK(problem_of([] { mcp_servers({.files = {}, .servers = {"a=x", "a=y"}}); }) == "two MCP servers have the name a");
}

TEST_CASE("a server is asked for its tools, page by page, and called") {
  for (const char* mode : {"", "noisy"}) {
    CAPTURE(mode);
    McpClient client(server(mode));
    started(client);
    REQUIRE(client.tools().size() == 4);
    CHECK(client.tools()[0].name == "echo");
    CHECK(client.tools()[0].description == "The tool echo");
    CHECK(client.tools()[2].name == "act");
    CHECK(client.call("echo", {{"text", "für"}}, nullptr).text == "heard für");
    CHECK(act(client, "parts").text == "one\n[image/png: not shown]\ntwo");
    CHECK(act(client, "fail").failed);
    CHECK(act(client, "refuse").failed);
    CHECK(act(client, "refuse").text == "MCP server tiny: tools/call: not\\x0aso");
    const std::string told = act(client, "ping").text;
    CHECK(told.find(R"("id":"ping-1","result":{})") != std::string::npos);
    CHECK(told.find(R"("id":77,"error")") != std::string::npos);
    CHECK(!client.tools_have_changed());
    act(client, "change");
    CHECK(client.tools_have_changed());
    client.list_tools(nullptr);
    CHECK(client.tools().size() == 5);
  }
}

TEST_CASE("a server has the folder and the variables that it was given, and no files of this process") {
  const tests::TemporaryFolder folder;
  McpServer how = server("");
  how.folder = folder.path();
  how.environment = {{"MCP_TEST", "one two"}};
  McpClient client(how);
  started(client);
  CHECK(act(client, "variable").text == "one two");
  CHECK(act(client, "folder").text == std::filesystem::canonical(folder.path()).string());
}

TEST_CASE("a server that does not behave is one clear line") {
  const auto start = [](const McpServer& how) {
    return problem_of([&] {
      McpClient client(how);
      started(client);
    });
  };
  CHECK(start(server("ends")) == "MCP server tiny ended with status 3: no such module");
  CHECK(start(server("no-list")) == "MCP server tiny: answered tools/list without a list of tools");
  CHECK(start(server("endless")) == "MCP server tiny: sent a line of more than 16 MiB");
  CHECK(start({"tiny", {"/absent/program"}, {}, ""}) ==
        "MCP server tiny: /absent/program did not start: No such file or directory");
  CHECK(start({"tiny", {RIDGE_MCP_SERVER}, {}, "/absent"}).find("did not start in /absent") != std::string::npos);
  CHECK(start({"tiny", {"true"}, {}, ""}) == "MCP server tiny ended with status 0");

  McpClient client(server(""));
  started(client);
  CHECK(problem_of([&] { act(client, "end"); }) == "MCP server tiny ended with status 7: out of luck");
  CHECK(client.is_over());
}

TEST_CASE("what is waited for can be stopped, and the server is told") {
  const tests::TemporaryFolder folder;
  const std::string place = folder / "waits";
  std::atomic<bool> cancel = false;
  McpClient client(server(""));
  started(client);
  std::thread stopper([&] {
    CHECK(eventually([&] { return std::filesystem::exists(place); }));
    cancel = true;
  });
  CHECK_THROWS_AS(client.call("act", {{"what", "wait " + place}}, &cancel), McpClient::Cancelled);
  stopper.join();
  cancel = false;
  CHECK(client.call("echo", {{"text", "again"}}, &cancel).text == "heard again");
  std::ifstream told(place + ".told");
  std::string line;
  CHECK(std::getline(told, line));
  CHECK(line.find("notifications/cancelled") != std::string::npos);

  cancel = true;
  McpClient mute(server("mute"));
  CHECK_THROWS_AS(mute.finish_start(&cancel), McpClient::Cancelled);
}

TEST_CASE("a stop comes before lines that wait to be read") {
  LineProcess program("lines", {"printf", "one\\ntwo\\n"}, {}, "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::atomic<bool> cancel = true;
  std::string line;
  CHECK((program.read(line, deadline, nullptr) == McpChannel::Event::message));
  CHECK((program.read(line, deadline, &cancel) == McpChannel::Event::cancelled));
  CHECK((program.read(line, deadline, nullptr) == McpChannel::Event::message));
  CHECK(line == "two");
}

TEST_CASE("the tools of several servers have different names, and one that ended is started again") {
  std::vector<std::string> notices;
  const auto notice = [&](const std::string& line) { notices.push_back(line); };
  const std::string program = RIDGE_MCP_SERVER;
  Toolbox box({.files = {}, .servers = {"one=" + program, "gone=" + program + " ends", "two=" + program}});
  box.start(notice);
  CHECK(notices == std::vector<std::string>{"MCP server gone ended with status 3: no such module"});
  std::vector<std::string> names;
  for (const Toolbox::Tool& tool : box.tools()) names.push_back(tool.name);
  CHECK(names == std::vector<std::string>{"one_echo", "one_a b", "one_act", "one_odd", "two_echo", "two_a b", "two_act",
                                          "two_odd"});
  CHECK(box.find("one_echo") == nullptr);
}
