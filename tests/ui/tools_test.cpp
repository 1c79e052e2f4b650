// MCP tools in a real window. Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "ui/driver.h"
#include "ui/window.h"

#include <doctest/doctest.h>

using namespace ridge;
using tests::eventually;
using tests::run_with_user;
using tests::User;

TEST_CASE("a call of a tool waits for a click, and its result is shown") {
  const tests::TemporaryFolder folder;
  app::WindowSetup setup = tests::guide_setup();
  tests::TinyModel().write(folder / "tiny.gguf");
  setup.model.model = folder / "tiny.gguf";
  setup.model.context = 2048;
  setup.mcp.servers = {std::string("tiny=") + RIDGE_MCP_SERVER};
  setup.request.sampling.grammar =
      R"(root ::= "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hi\"}}\n</tool_call>")";
  setup.remember_files = false;
  ui::WindowOptions options;
  options.enable_widget_positions = true;
  ui::Window window(options);
  app::WindowEngine engine(setup, [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) {
    const auto now = [&] { return engine.snapshot(); };
    REQUIRE(eventually([&] { return now()->tools && now()->tools->size() == 2; }));
    user.click("message box");
    user.type("say hi");
    user.press("Return");
    REQUIRE(eventually([&] { return now()->tool_question != nullptr; }));
    CHECK(now()->tool_question->tool == "echo");
    CHECK(now()->tool_question->arguments == "{\"text\": \"hi\"}");
    const uint64_t first = now()->tool_question->number;
    user.click("Allow");
    const auto asks_again = [&](uint64_t before) {
      const auto at = now();
      return at->tool_question && at->tool_question->number > before;
    };
    REQUIRE(eventually([&] { return asks_again(first); }));
    CHECK(now()->messages[2].call == "tiny: echo({\"text\": \"hi\"})");
    CHECK(now()->messages[2].text == "heard hi");
    user.press("ctrl+2"); // shown over any panel
    user.press("Escape");
    REQUIRE(eventually([&] { return asks_again(first + 1); }));
    CHECK(now()->messages[4].text == app::kDeclined);
    engine.send(api::intent::Stop{});
    REQUIRE(eventually([&] { return now()->state == api::EngineState::idle; }));
    CHECK(now()->messages.size() == 7);
    CHECK(now()->messages[6].text == app::kStopped);
    CHECK(!now()->tool_question);
    user.press("ctrl+1");
    user.click("tiny: echo({\"text\": \"hi\"})", 0); // expands
    CHECK(now()->error == "");
  });
}
