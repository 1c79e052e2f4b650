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
    until([](const api::Snapshot& s) { return s.model && s.state == api::EngineState::idle; });
  }
  std::shared_ptr<const api::Snapshot> now() const { return engine.snapshot(); }
  void until(const std::function<bool(const api::Snapshot&)>& condition,
             std::source_location at = std::source_location::current()) const {
    REQUIRE(eventually([&] { return condition(*now()); }, at));
  }
  app::WindowEngine engine;
};

} // namespace ridge::tests
