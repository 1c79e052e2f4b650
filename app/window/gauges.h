// Roofs of this machine, measured and predicted steps, and the GPUs' state.
#pragma once

#include "app/window/board.h"
#include "app/window/loaded.h"
#include "measure/roofline_report.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace ridge::app {

class Gauges {
 public:
  // The board must outlive it. `current`, the open model, is called under the board's lock; `measured` after the roof
  // was.
  Gauges(Board& board, std::function<std::shared_ptr<Loaded>()> current, std::function<void()> measured)
      : board_(board), current_(std::move(current)), measured_(std::move(measured)),
        gpu_watch_([this](const std::stop_token& stop) { watch_gpus(stop); }) {}

  // The worker, which drives the session, calls these.
  void measure_roofs(const Loaded& loaded);
  void measure_step(Loaded& loaded, int64_t past, const std::atomic<bool>& cancel);
  void profile(const Loaded& loaded, int repetitions); // a step after the session's tokens
  static double known_roof(const Loaded& loaded);      // bytes per second; 0: unknown
  void measure_roof_when_idle();
  // Forgets roofs of another device. In a change of the board.
  void take(api::Snapshot& s, const Loaded& loaded);

  // From any thread. Null: the roofs are unknown.
  std::shared_ptr<api::StepRoofline> predict(const Loaded& loaded, const api::intent::PredictStep& wanted) const;
  void stop() {
    gpu_watch_.request_stop();
    roof_watch_.request_stop();
  }

  static constexpr int kQuickRepetitions = 5;

 private:
  void watch_gpus(const std::stop_token& stop);

  Board& board_;
  const std::function<std::shared_ptr<Loaded>()> current_;
  const std::function<void()> measured_;
  std::shared_ptr<const measure::RooflineReport> roofs_; // under the board's lock
  std::string roofs_of_;
  std::jthread roof_watch_, gpu_watch_;
};

} // namespace ridge::app
