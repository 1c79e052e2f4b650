// Models on this machine, first models to download, and how a model fits. Each takes seconds, on threads of their own.
#pragma once

#include "app/window/board.h"
#include "app/window/worker.h"

#include <atomic>
#include <functional>

namespace ridge::app {

// `options` with what load settings set. Files of one model must not carry over to another.
api::ModelOptions with_settings(api::ModelOptions options, const api::ModelOptions& wanted);

class ModelLists {
 public:
  // The board must outlive it. `runs_on_gpu`, whether the open model does, is called under the board's lock.
  ModelLists(Board& board, api::ModelOptions options, std::function<bool()> runs_on_gpu)
      : board_(board), options_(std::move(options)), runs_on_gpu_(std::move(runs_on_gpu)) {}
  ~ModelLists() { stop(); }

  // From any thread.
  void ask_list();
  void ask_first_models();
  void ask_fit(const api::intent::FitModel& wanted);
  void stop();

 private:
  void list();
  void offer_first_models();
  void fit(const api::intent::FitModel& wanted);

  Board& board_;
  const api::ModelOptions options_;
  const std::function<bool()> runs_on_gpu_;
  std::atomic<bool> closing_ = false;
  std::atomic<int> fits_waiting_ = 0; // only the last one counts
  Worker lists_, fits_;               // last: their threads use the members above
};

} // namespace ridge::app
