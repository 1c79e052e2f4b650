// A user's hands: keys and mouse through the X server (xdotool), and patience.
#pragma once

#include "app/gui_engine.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

namespace ridge::tests {

inline void xdotool(const std::string& command) {
  INFO(command);
  CHECK(std::system(("xdotool " + command).c_str()) == 0);
}

inline bool wait_for(const std::function<bool()>& condition, std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition())
    if (std::chrono::steady_clock::now() > end)
      return false;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return true;
}

// Shows the window while `use`, in a thread of its own, works with it: until it closes it, or fails.
inline void run_with_user(ui::Window& window, app::GuiEngine& engine, const std::function<void()>& use) {
  std::thread user([&] {
    try {
      use();
    } catch (...) { // a REQUIRE failed: doctest has noted it
      window.close();
    }
  });
  window.run({[&] { return engine.snapshot(); }, [&](core::Intent i) { engine.send(std::move(i)); }});
  user.join();
}

} // namespace ridge::tests
