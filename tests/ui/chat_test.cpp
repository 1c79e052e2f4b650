// The chat in a real window. Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "support/temporary_folder.h"
#include "ui/dialogs/link_question.h"
#include "ui/driver.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ridge;
using tests::eventually;
using tests::User;
using tests::with_chat;

namespace {

std::string conversation_of(const std::string& title, const std::string& answer) {
  return fmt::format(R"({{"title": "{}", "changed_ms": 1000, "messages": [{{"role": "user", "content": "Show me."}},
                     {{"role": "assistant", "content": "{}"}}]}})",
                     title, answer);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("a link is opened only after a question, and code is copied") {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "conversations");
  folder.write(
      "conversations/1.json",
      conversation_of("With a link", "See [the page](https://example.org/a?b=c) and\\n\\n```py\\nx = 1\\n```\\n"));
  // Replaces the program that opens links.
  folder.write("xdg-open", fmt::format("#!/bin/sh\necho \"$1\" > {0}/new && mv {0}/new {0}/opened\n", folder.path()));
  std::filesystem::permissions(folder / "xdg-open", std::filesystem::perms::owner_all);
  ::setenv("PATH", fmt::format("{}:{}", folder.path(), std::getenv("PATH")).c_str(), 1);
  with_chat(folder, tests::guide_setup(), [&](User& user, app::WindowEngine& engine) {
    user.click("With a link");
    REQUIRE(eventually([&] { return engine.snapshot()->messages.size() == 2; }));
    user.click("the page");
    user.click("Cancel");
    user.click("the page");
    CHECK(!std::filesystem::exists(folder / "opened"));
    user.click("Open");
    CHECK(eventually([&] { return std::filesystem::exists(folder / "opened"); }));
    CHECK(content_of(folder / "opened") == "https://example.org/a?b=c\n");
    user.click("copy", 1); // after the question's button
    user.click("message box");
    user.press("ctrl+v");
    user.press("Return");
    REQUIRE(eventually([&] { return engine.snapshot()->messages.size() == 4; }));
    CHECK(engine.snapshot()->messages[2].text == "x = 1");
  });
}

TEST_CASE("only addresses of the web and of mail are opened") {
  for (const char* fine : {"http://a.b", "HTTPS://a.b/c", "mailto:a@b.c"}) CHECK(ui::may_be_opened(fine));
  for (const char* other : {"file:///etc/passwd", "javascript:alert(1)", "/bin/sh", "--help", "", "ftp://a.b"})
    CHECK(!ui::may_be_opened(other));
}

TEST_CASE("messages are edited, answered again and shown as they were; conversations are searched and written out") {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "conversations");
  folder.write("conversations/1.json", conversation_of("About lions", "Lions are large."));
  folder.write("conversations/2.json", conversation_of("About dogs", "Dogs are smaller."));
  app::WindowSetup setup = tests::guide_setup();
  setup.request.sampling.max_tokens = 8;
  with_chat(folder, setup, [&](User& user, app::WindowEngine& engine) {
    const auto now = [&] { return engine.snapshot(); };
    const auto idle = [&](size_t messages) {
      return eventually([&] {
        const auto at = now();
        return at->messages.size() == messages && at->state == api::EngineState::idle;
      });
    };
    user.click("search");
    user.type("large");
    REQUIRE(eventually([&] { return now()->conversations->size() == 1; }));
    user.click("About lions");
    REQUIRE(idle(2));
    user.click("edit", 1); // the answer's
    user.type(" Very.");
    user.click("Save");
    CHECK(eventually([&] { return now()->messages.at(1).text == "Lions are large. Very."; }));
    user.click("regenerate");
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->messages.size() == 2 && at->messages[1].versions == 2;
    }));
    REQUIRE(idle(2));
    CHECK(now()->messages[1].facts->tokens > 0);
    user.click("‹");
    CHECK(eventually([&] { return now()->messages.at(1).text == "Lions are large. Very."; }));
    user.click("edit", 0);
    user.press("ctrl+a");
    user.type("And cats?");
    user.click("Resend");
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->messages.size() == 2 && at->messages[0].versions == 2;
    }));
    REQUIRE(idle(2));
    user.click("export");
    user.press("ctrl+a");
    user.type(folder / "lions.md");
    user.press("Return");
    CHECK(eventually([&] { return now()->notice_number > 0; }));
    CHECK(content_of(folder / "lions.md").starts_with("# And cats?\n\n## You\n\nAnd cats?\n"));
    user.click("dismiss");
    CHECK(eventually([&] { return ui::places_of("dismiss").empty(); }));
    CHECK(now()->error == "");
  });
}

TEST_CASE("a preset is saved by a name and used again, and a model is opened with a longer context") {
  const tests::TemporaryFolder folder;
  ::setenv("HF_HOME", folder.path().c_str(), 1);
  with_chat(folder, tests::guide_setup(), [&](User& user, app::WindowEngine& engine) {
    const auto now = [&] { return engine.snapshot(); };
    user.click("preset");
    user.type("mine");
    user.click("save preset");
    CHECK(eventually([&] { return now()->presets.size() == 1; }));
    engine.send(api::intent::SetSystemPrompt{"Be brief."});
    CHECK(eventually([&] { return now()->system_prompt == "Be brief."; }));
    user.click("presets");
    user.click("mine");
    CHECK(eventually([&] { return now()->system_prompt.empty(); }));

    const std::string copy = folder / "guide.gguf";
    api::QuantizeRequest quantize{.input = "", .output = copy, .type = "Q8_0"};
    quantize.allow_requantize = true;
    engine.send(api::intent::StartJob{quantize});
    REQUIRE(eventually([&] {
      const auto at = now();
      return !at->jobs->empty() && at->jobs->front().state == api::JobState::done;
    }));
    user.press("ctrl+o");
    user.press("ctrl+a");
    user.type(copy);
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->fit && at->fit->path == copy && at->fit->problem.empty();
    }));
    user.click("keys");
    user.click("q8_0");
    CHECK(eventually([&] { return now()->fit->cpu->cache > 0; }));
    user.click("Open");
    CHECK(eventually([&] {
      const auto at = now();
      return at->model->path == copy && at->options.k_type == "q8_0";
    }));
    CHECK(now()->error == "");
  });
}
