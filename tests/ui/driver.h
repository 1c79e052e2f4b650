// A simulated user (xdotool).
#pragma once

#include "app/window/window_engine.h"
#include "support/temporary_folder.h"
#include "support/watchdog.h"
#include "ui/widgets/places.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

namespace ridge::tests {

// One CPU thread: deterministic.
inline app::WindowSetup guide_setup() {
  app::WindowSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.request.sampling.params.seed = 1;
  return setup;
}

inline void xdotool(const std::string& command) {
  INFO(command);
  CHECK(std::system(("xdotool " + command).c_str()) == 0);
}

// Actions wait for a number of frames, so that effects are drawn even on a busy machine.
class User {
 public:
  explicit User(ui::Window& window) : window_(window) {}

  void act(const std::string& command) {
    xdotool(command); // when the X server has it
    // One frame may be in progress; press and release take one each; then the effect is drawn and gets the focus.
    const uint64_t enough = window_.frames() + 8;
    CHECK(eventually([&] {
      window_.wake();
      return window_.frames() >= enough;
    }));
  }
  void press(const std::string& keys) { act("key " + keys); }
  void type(const std::string& text) { act(fmt::format("type --delay 20 '{}'", text)); }
  void point(int x, int y) { act(fmt::format("mousemove {} {}", x, y)); }
  void click(int x, int y) {
    point(x, y);
    act("click 1");
  }
  // The last item of this name, or number `which`. Needs enable_widget_positions.
  void click(const std::string& words, int which = -1) {
    point(words, which);
    act("click 1");
  }
  // Presses the mouse's button on it, and releases it when `meanwhile` returns.
  void hold(const std::string& words, const std::function<void()>& meanwhile) {
    point(words, -1);
    act("mousedown 1");
    meanwhile();
    act("mouseup 1");
  }

 private:
  void point(const std::string& words, int which) {
    std::vector<ui::Place> places;
    CAPTURE(words);
    REQUIRE(eventually([&] {
      window_.wake();
      places = ui::places_of(words);
      return static_cast<int>(places.size()) > std::max(which, 0);
    }));
    const ui::Place at = which < 0 ? places.back() : places[static_cast<size_t>(which)];
    point(static_cast<int>(at.x), static_cast<int>(at.y));
  }

  ui::Window& window_;
};

// Shows the window; `use` runs in another thread once a model is open.
inline void run_with_user(ui::Window& window, app::WindowEngine& engine, const std::function<void(User&)>& use) {
  std::thread user([&] {
    try {
      REQUIRE(
          eventually([&] { return engine.snapshot()->model && engine.snapshot()->state == api::EngineState::idle; }));
      xdotool("search --sync --onlyvisible --name '^ridge$' windowfocus");
      User hands(window);
      use(hands);
    } catch (...) { // a failed REQUIRE
    }
    window.close();
  });
  window.run({[&] { return engine.snapshot(); }, [&](api::Intent i) { engine.send(std::move(i)); }});
  user.join();
}

// Conversations are kept in the folder.
inline void with_chat(const TemporaryFolder& folder, app::WindowSetup setup,
                      const std::function<void(User&, app::WindowEngine&)>& use) {
  setup.conversation_folder = folder / "conversations";
  setup.remember_files = false;
  ui::WindowOptions options;
  options.enable_widget_positions = true;
  ui::Window window(options);
  app::WindowEngine engine(setup, [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) { use(user, engine); });
}

} // namespace ridge::tests
