// MCP tools in the window's engine.
#include "app/support.h"
#include "app/window/window_engine.h"

#include <filesystem>

using namespace ridge;
using namespace ridge::tests;
using api::intent::ToolPermission;

namespace {

app::WindowSetup setup_that_calls(const std::string& tool, const std::string& arguments) {
  app::WindowSetup setup;
  setup.model.model = tiny_model();
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.model.context = 2048;
  setup.request.sampling.params.seed = 1;
  setup.request.sampling.grammar =
      R"(root ::= "<tool_call>\n{\"name\": \")" + tool + R"(\", \"arguments\": )" + arguments + R"(}\n</tool_call>")";
  setup.mcp.servers = {std::string("tiny=") + RIDGE_MCP_SERVER};
  setup.remember_files = false;
  return setup;
}

class Person {
 public:
  explicit Person(app::WindowSetup setup) : engine(std::move(setup), [] {}) {}

  std::shared_ptr<const api::Snapshot> now() const { return engine.snapshot(); }
  bool eventually_shows(const std::function<bool(const api::Snapshot&)>& is) const {
    return eventually([&] { return is(*now()); });
  }
  bool idle() const {
    return eventually_shows([](const api::Snapshot& s) { return s.model && s.state == api::EngineState::idle; });
  }
  void answer(ToolPermission may) {
    REQUIRE(
        eventually_shows([&](const api::Snapshot& s) { return s.tool_question && s.tool_question->number > last_; }));
    last_ = now()->tool_question->number;
    engine.send(api::intent::AnswerTool{last_, may});
  }

  app::WindowEngine engine;

 private:
  uint64_t last_ = 0;
};

} // namespace

TEST_CASE("the window's engine asks about each call, and is told once for all") {
  app::WindowSetup setup = setup_that_calls("echo", R"({\"text\": \"hi\"})");
  setup.conversation_folder = folder() / "window-conversations";
  {
    Person person(setup);
    REQUIRE(person.eventually_shows([](const api::Snapshot& s) { return s.tools && s.tools->size() == 2; }));
    person.engine.send(api::intent::Send{"say hi"});
    person.answer(ToolPermission::yes);
    person.engine.send(api::intent::AnswerTool{1, ToolPermission::always}); // outdated
    person.answer(ToolPermission::no);
    person.answer(ToolPermission::always);
    // Calls need no confirmation from here.
    REQUIRE(person.eventually_shows([](const api::Snapshot& s) { return s.messages.size() >= 10; }));
    CHECK(person.now()->tools->front().allowed);
    person.engine.send(api::intent::Stop{});
    REQUIRE(person.idle());
    const auto at = person.now();
    CHECK(at->error == "");
    CHECK(at->messages[2].text == "heard hi");
    CHECK(at->messages[4].text == app::kDeclined);
    CHECK(at->messages[6].text == "heard hi");
    CHECK(at->messages[6].call == "tiny: echo({\"text\": \"hi\"})");
    CHECK(!at->messages[1].user);
    CHECK(at->messages[1].text == "");
  }
  // The conversation is stored with its calls and can be regenerated.
  Person person(setup);
  REQUIRE(person.idle());
  person.engine.send(api::intent::OpenConversation{person.now()->conversations->front().id});
  REQUIRE(person.eventually_shows([](const api::Snapshot& s) { return s.messages.size() >= 10; }));
  CHECK(person.now()->messages[6].call == "tiny: echo({\"text\": \"hi\"})");
  CHECK(person.now()->messages[6].text == "heard hi");
  person.engine.send(api::intent::Regenerate{});
  REQUIRE(person.eventually_shows([](const api::Snapshot& s) { return s.tool_question != nullptr; }));
  CHECK(person.now()->messages.size() == 2);
  person.engine.send(api::intent::Stop{});
  REQUIRE(person.idle());
}

TEST_CASE("a call that hangs is stopped in the window, and a server that ends is a notice") {
  const std::string waits = folder() / "window-waits";
  Person person(setup_that_calls("act", R"({\"what\": \"wait )" + waits + R"(\"})"));
  REQUIRE(person.idle());
  person.engine.send(api::intent::Send{"wait"});
  person.answer(ToolPermission::yes);
  REQUIRE(eventually([&] { return std::filesystem::exists(waits); }));
  person.engine.send(api::intent::Stop{});
  REQUIRE(person.idle());
  REQUIRE(person.now()->messages.size() == 3);
  CHECK(person.now()->messages[2].text == app::kStopped);

  Person other(setup_that_calls("act", R"({\"what\": \"end\"})"));
  other.engine.send(api::intent::Send{"end"});
  other.answer(ToolPermission::yes);
  REQUIRE(other.eventually_shows([](const api::Snapshot& s) { return s.messages.size() > 2; }));
  const auto at = other.now();
  CHECK(at->messages[2].text == "Error: MCP server tiny ended with status 7: out of luck");
  CHECK(std::ranges::count(at->notices, "MCP server tiny ended with status 7: out of luck") == 1);
}

TEST_CASE("a window closes while it asks") {
  Person person(setup_that_calls("echo", R"({\"text\": \"hi\"})"));
  person.engine.send(api::intent::Send{"say hi"});
  REQUIRE(person.eventually_shows([](const api::Snapshot& s) { return s.tool_question != nullptr; }));
}
