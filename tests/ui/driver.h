// A user's hands: keys and mouse through the X server (xdotool), and patience.
#pragma once

#include "app/window/window_engine.h"
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

// The guide on one thread of the CPU, always with the same answers.
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

// A user before the window. Each act is over when the window has drawn what came of it: a number of frames, however
// long they take on a busy machine.
class User {
 public:
  explicit User(ui::Window& window) : window_(window) {}

  void act(const std::string& command) {
    xdotool(command); // over when the X server has taken it
    // One frame may be under way; a press and its release are seen in one each; then a button's consequence is drawn,
    // is given the focus and has it.
    const uint64_t enough = window_.frames() + 8;
    CHECK(comes([&] {
      window_.wake();
      return window_.frames() >= enough;
    }));
  }
  void press(const std::string& keys) { act("key " + keys); }
  void type(const std::string& text) { act(fmt::format("type --delay 20 '{}'", text)); }
  void point(int x, int y) { act(fmt::format("mousemove {} {}", x, y)); }
  void click(int x, int y) { // a person does not click where nothing was drawn yet
    point(x, y);
    act("click 1");
  }
  // What has these words, once it is there; of several the last one, or the one with this number from 0 on. The window
  // keeps places.
  void click(const std::string& words, int which = -1) {
    std::vector<ui::Place> places;
    CAPTURE(words);
    REQUIRE(comes([&] {
      window_.wake();
      places = ui::places_of(words);
      return static_cast<int>(places.size()) > std::max(which, 0);
    }));
    const ui::Place at = which < 0 ? places.back() : places[static_cast<size_t>(which)];
    click(static_cast<int>(at.x), static_cast<int>(at.y));
  }

 private:
  ui::Window& window_;
};

// Shows the window, once a model is open, while `use` works with it in a thread of its own.
inline void run_with_user(ui::Window& window, app::WindowEngine& engine, const std::function<void(User&)>& use) {
  std::thread user([&] {
    try {
      REQUIRE(comes([&] { return engine.snapshot()->model && engine.snapshot()->state == core::EngineState::idle; }));
      xdotool("search --sync --onlyvisible --name '^ridge$' windowfocus");
      User hands(window);
      use(hands);
    } catch (...) { // a REQUIRE failed: doctest has noted it
    }
    window.close();
  });
  window.run({[&] { return engine.snapshot(); }, [&](core::Intent i) { engine.send(std::move(i)); }});
  user.join();
}

} // namespace ridge::tests
