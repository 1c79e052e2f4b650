// The state that the window shows. Any thread may change it; the window reads published copies.
#pragma once

#include "api/snapshot.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace ridge::app {

class Board {
 public:
  // `wake` is called from any thread after a new snapshot, at most 100 times a second.
  explicit Board(std::function<void()> wake)
      : wake_(std::move(wake)), published_(std::make_shared<const api::Snapshot>()) {}

  std::shared_ptr<const api::Snapshot> snapshot() const;

  // Changes the state under the lock and publishes it; `soon` is rate-limited.
  enum class Publish { now, soon };
  void change(const std::function<void(api::Snapshot&)>& how, Publish when = Publish::now);
  void fail(const std::string& error);
  void tell(const std::string& notice);
  // Runs `work`; an exception becomes the snapshot's error.
  void guarded(const std::function<void()>& work);

  template <class Look>
  auto look(const Look& look) const { // under the lock
    const std::lock_guard lock(mutex_);
    return look(state_);
  }
  // Without the lock, for a thread that alone changes what it reads.
  const api::Snapshot& state() const { return state_; }

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  api::Snapshot state_;
  std::shared_ptr<const api::Snapshot> published_;
  std::chrono::steady_clock::time_point published_at_;
};

} // namespace ridge::app
