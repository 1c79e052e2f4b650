// MCP tools in `ridge chat`.
#include "app/support.h"
#include "core/json/parse.h"

#include <nlohmann/json.hpp>

#include <filesystem>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

// Always this call, until the grammar is removed.
std::vector<std::string> chat_that_calls(const std::string& tool, const std::string& arguments) {
  const std::string call =
      R"(root ::= "<tool_call>\n{\"name\": \")" + tool + R"(\", \"arguments\": )" + arguments + R"(}\n</tool_call>")";
  return {RIDGE_BINARY,
          "chat",
          "-m",
          tiny_model(),
          "-n",
          "200",
          "-s",
          "1",
          "-t",
          "1",
          "-c",
          "2048",
          "--grammar-file",
          folder().write(tool + ".gbnf", call),
          "--mcp-server",
          std::string("tiny=") + RIDGE_MCP_SERVER};
}

std::vector<std::string> chat_that_echoes() { return chat_that_calls("echo", R"({\"text\": \"hi\"})"); }

Terminal::Environment environment() {
  return {{"TERM", "xterm"},
          {"XDG_STATE_HOME", folder() / "state"},
          {"LC_ALL", "C.UTF-8"},
          {"NO_COLOR", "1"},
          {"RIDGE_CONFIG", "none"}};
}

json saved(const std::string& name) { return ridge::core::parse_json(read_file(folder() / name))["messages"]; }

} // namespace

TEST_CASE("a chat asks before each call of a tool: yes, no, and always") {
  Terminal chat(chat_that_echoes(), environment());
  REQUIRE(chat.expect("a b is skipped: name: expected"));
  REQUIRE(chat.expect("odd is skipped: parameters: "));
  REQUIRE(chat.expect("you are asked before each call"));
  REQUIRE(chat.expect("> "));
  chat.type("say hi\r");
  REQUIRE(chat.expect("[allow tiny: echo({\"text\": \"hi\"})? y: yes, n: no, a: always in this chat]"));
  REQUIRE(chat.expect("> "));
  chat.type("hm\r"); // not a decision
  REQUIRE(chat.expect("[allow "));
  chat.type("y\r");
  REQUIRE(chat.expect("[echo: 8 bytes]"));
  REQUIRE(chat.expect("[allow "));
  chat.type("n\r");
  REQUIRE(chat.expect("[allow "));
  chat.type("/tools\r");
  REQUIRE(chat.expect("tiny: The tool echo"));
  chat.type("/set grammar none\r");
  REQUIRE(chat.expect("[grammar = none]"));
  chat.type("a\r");
  REQUIRE(chat.expect("[echo: 8 bytes]"));
  REQUIRE(chat.expect("· context "));
  chat.type("/tools\r");
  REQUIRE(chat.expect("The tool echo (without asking)"));
  chat.type("/save " + (folder() / "asked.json") + "\r");
  REQUIRE(chat.expect("[saved"));
  REQUIRE(chat.expect("> "));
  chat.type("\x04");
  CHECK(chat.exit_status() == 0);

  const json messages = saved("asked.json");
  REQUIRE(messages.size() == 8);
  CHECK(messages[1]["tool_calls"][0]["function"]["name"].get<std::string>() == "echo");
  CHECK(messages[2]["role"].get<std::string>() == "tool");
  CHECK(messages[2]["content"].get<std::string>() == "heard hi");
  CHECK(messages[4]["content"].get<std::string>() == "The user did not allow this call.");
  CHECK(messages[6]["content"].get<std::string>() == "heard hi");
  CHECK(!messages[7].contains("tool_calls"));
}

TEST_CASE("a call that hangs is stopped by Ctrl-C, and the chat goes on") {
  const std::string waits = folder() / "waits";
  Terminal chat(chat_that_calls("act", R"({\"what\": \"wait )" + waits + R"(\"})"), environment());
  REQUIRE(chat.expect("> "));
  chat.type("wait\r");
  REQUIRE(chat.expect("[allow "));
  chat.type("y\r");
  REQUIRE(eventually([&] { return std::filesystem::exists(waits); }));
  chat.type("\x03");
  REQUIRE(chat.expect("[stopped]"));
  chat.type("/save " + (folder() / "stopped.json") + "\r");
  REQUIRE(chat.expect("[saved 3 messages"));
  CHECK(saved("stopped.json")[2]["content"].get<std::string>() == "The user stopped this call.");
  chat.type("/set grammar none\r");
  REQUIRE(chat.expect("[grammar = none]"));
  chat.type("and now?\r");
  REQUIRE(chat.expect("· context "));
  REQUIRE(chat.expect("> "));
  chat.type("\x04");
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("of a server that ends the chat has one line, and the model is told") {
  std::vector<std::string> args = chat_that_calls("act", R"({\"what\": \"end\"})");
  const std::string path = folder() / "ended.json";
  const Result talk = run(args, "go\ny\n/save " + path + "\n");
  CHECK(talk.status == 0);
  const std::string line = "MCP server tiny ended with status 7: out of luck";
  const size_t at = talk.err.find(line);
  REQUIRE(at != std::string::npos);
  CHECK(talk.err.find(line, at + 1) == std::string::npos);
  CHECK(saved("ended.json")[2]["content"].get<std::string>() == "Error: " + line);

  args = chat_that_calls("act", R"({\"what\": \"long\"})");
  args.insert(args.end(), {"--mcp-server", "gone=/absent"});
  const Result cut = run(args, "go\ny\n/save " + path + "\n");
  CHECK(cut.status == 0);
  CHECK(cut.err.find("MCP server gone: /absent did not start: No such file or directory") != std::string::npos);
  const auto content = saved("ended.json")[2]["content"].get<std::string>();
  CHECK(content.starts_with("xxx"));
  CHECK(content.ends_with(" of 300002 bytes; the rest was left out]"));
}

TEST_CASE("MCP servers stand in the configuration file") {
  const std::string list = folder().write("mcp.json", std::string(R"({"mcpServers": {"tiny": {"command": ")") +
                                                          RIDGE_MCP_SERVER + R"("}}})");
  const std::string config =
      folder().write("config.ini", "[chat]\nmcp = " + list + "\nmcp-server = \"other=" + RIDGE_MCP_SERVER + "\"\n");
  const Result talk = run({RIDGE_BINARY, "chat", "-m", tiny_model(), "--config", config}, "/tools\n");
  CHECK(talk.status == 0);
  for (const char* tool : {"tiny_echo", "tiny_act", "other_echo", "other_act"})
    CHECK(talk.out.find(tool) != std::string::npos);

  const std::string wrong = folder().write("wrong.json", R"({"mcpServers": {"a": {"command": 1}}})");
  const Result refused = run_ridge({"chat", "-m", tiny_model(), "--mcp", wrong});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("wrong.json: mcpServers: a.command: expected a string") != std::string::npos);
}
