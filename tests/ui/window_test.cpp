// The window on an X server (xdotool). Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "core/error.h"
#include "support/temporary_folder.h"
#include "ui/driver.h"
#include "ui/panels/layout.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <thread>

using namespace ridge;
using tests::eventually;
using tests::guide_setup;
using tests::run_with_user;
using tests::User;

namespace {

// Runs in a second thread; the window needs the main one.
void use_panels(User& user, const app::WindowEngine& engine, const ui::Window& window) {
  const auto now = [&] { return engine.snapshot(); };
  const auto idle = [&] { return now()->state == api::EngineState::idle; };
  user.click(600, 710);

  user.type("What is Q4_K?");
  tests::xdotool("key Return"); // without waiting
  size_t parts = 0, length = 0;
  REQUIRE(eventually([&] {
    const auto s = now();
    if (s->messages.size() == 2 && s->messages[1].text.size() > length) {
      length = s->messages[1].text.size();
      ++parts;
    }
    return s->messages.size() == 2 && length > 0 && s->state == api::EngineState::idle;
  }));
  CHECK(now()->messages[0].text == "What is Q4_K?");
  CHECK(parts >= 1);
  CHECK(now()->speed.tokens_per_s > 0);
  CHECK(now()->speed.bytes_per_s > 0);
  CHECK(now()->kv.tokens > 0);

  const auto first = now()->speed.prompt_tokens;
  user.press("ctrl+r"); // regenerates from the cache
  CHECK(eventually([&] {
    const auto at = now();
    return at->speed.prompt_tokens < first && idle() && at->messages.size() == 2;
  }));

  for (const auto& [key, name] : {std::pair{"2", "gauges"}, {"3", "roofline"}, {"4", "model"}, {"5", "quant"}}) {
    user.press(fmt::format("ctrl+{}", key));
    CHECK(eventually([&] { return window.panel() == name; }));
  }
  CHECK(eventually([&] {
    const auto at = now();
    return at->tensor && at->block;
  }));
  const auto tensor = now()->tensor->tensor;
  user.click(240, 160);
  CHECK(eventually([&] { return now()->tensor->tensor != tensor; }));
  CHECK(eventually([&] {
    const auto at = now();
    return static_cast<int>(at->tensor->formats.size()) == at->tensor->formats_to_try;
  }));

  user.act("search --name '^ridge$' windowsize --sync 1024 700");
  user.press("ctrl+l"); // light theme
  user.press("ctrl+1");
  CHECK(eventually([&] { return window.panel() == "chat"; }));
  CHECK(eventually(idle)); // measures for seconds
  user.press("ctrl+n");
  CHECK(eventually([&] { return now()->messages.empty(); }));
  CHECK(now()->error == "");
  tests::xdotool("key ctrl+q"); // idle: nothing is drawn
}

} // namespace

TEST_CASE("a question is typed, the answer streams, every panel opens, the window is resized and closed") {
  app::WindowSetup setup = guide_setup();
  setup.request.sampling.max_tokens = 40;
  ui::Window window({});
  app::WindowEngine engine(setup, [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) { use_panels(user, engine, window); });
}

TEST_CASE("a model that cannot be opened leaves a window with a message, and another can be opened") {
  app::WindowSetup setup = guide_setup();
  setup.model.model = "no-such-file.gguf";
  app::WindowEngine engine(setup, [] {});
  CHECK(eventually([&] { return engine.snapshot()->state == api::EngineState::failed; }));
  CHECK(engine.snapshot()->error.find("no-such-file.gguf") != std::string::npos);
  engine.send(api::intent::OpenModel{""});
  CHECK(eventually([&] { return engine.snapshot()->state == api::EngineState::idle; }));
  CHECK(engine.snapshot()->model);
}

TEST_CASE("a window at rest draws nothing, and for an event a few frames") {
  ui::WindowOptions options;
  options.panel = "gauges";
  ui::Window window(options);
  app::WindowEngine engine(guide_setup(), [&] { window.wake(); });
  std::thread user([&] {
    CHECK(eventually([&] { return engine.snapshot()->model && engine.snapshot()->state == api::EngineState::idle; }));
    CHECK(eventually([&] { return window.is_waiting_for_events(); }));
    for (int event = 0; event < 20; ++event) {
      const uint64_t before = window.frames();
      window.wake();
      CHECK(eventually([&] { return window.frames() > before && window.is_waiting_for_events(); }));
      CHECK(window.frames() <= before + 8);
    }
    window.close();
  });
  window.run({[&] { return engine.snapshot(); }, [&](api::Intent i) { engine.send(std::move(i)); }});
  user.join();
}

TEST_CASE("an unknown panel is refused with the names of those there are") {
  ui::WindowOptions options;
  options.panel = "nonsense";
  CHECK_THROWS_WITH_AS(
      ui::Window{options},
      "unknown panel 'nonsense'; expected one of chat, gauges, roofline, model, quant, jobs, server, sequences", Error);
}

TEST_CASE("a window whose size was kept from a larger screen fits on this one") {
  const tests::TemporaryFolder folder;
  ui::WindowOptions options;
  options.layout_file = folder / "window.ini";
  ui::Layout kept;
  kept.width = 4000;
  kept.height = 3000;
  ui::save_layout(options.layout_file, kept);
  {
    ui::Window window(options);
    app::WindowEngine engine(guide_setup(), [&] { window.wake(); });
    run_with_user(window, engine, [&](User& user) { user.press("ctrl+2"); });
  }
  const ui::Layout now = ui::load_layout(options.layout_file);
  CHECK(now.panel == "gauges");
  CHECK(now.width == 1280); // the screen of run_under_xvfb.sh
  CHECK(now.height == 800);
}
