// A user's hands: keys and mouse through the X server (xdotool), and patience.
#pragma once

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

} // namespace ridge::tests
