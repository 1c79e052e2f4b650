// WindowEngine without a window.
#pragma once

#include "app/window/window_engine.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <source_location>
#include <utility>

namespace ridge::tests {

struct WatchedEngine {
  explicit WatchedEngine(app::WindowSetup setup) : engine(std::move(setup), [] {}) {
    until([](const core::Snapshot& s) { return s.model && s.state == core::EngineState::idle; });
  }
  std::shared_ptr<const core::Snapshot> now() const { return engine.snapshot(); }
  void until(const std::function<bool(const core::Snapshot&)>& condition,
             std::source_location at = std::source_location::current()) const {
    REQUIRE(eventually([&] { return condition(*now()); }, at));
  }
  app::WindowEngine engine;
};

} // namespace ridge::tests
