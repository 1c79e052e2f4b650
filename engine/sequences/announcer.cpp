#include "engine/sequences/announcer.h"

#include <utility>

namespace ridge::engine {

Announcer::Announcer(bool own_thread) {
  if (own_thread) thread_ = std::thread([this] { work(); });
}

Announcer::~Announcer() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Announcer::add(const SequencePointer& sequence) {
  if (step_.empty() || step_.back() != sequence) step_.push_back(sequence);
}

void Announcer::announce() {
  if (step_.size() > 1 && thread_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      waiting_.insert(waiting_.end(), step_.begin(), step_.end());
    }
    changed_.notify_one();
  } else {
    for (const SequencePointer& sequence : step_) sequence->announce();
  }
  step_.clear();
}

void Announcer::work() {
  std::vector<SequencePointer> now;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    now.swap(waiting_);
    lock.unlock();
    for (const SequencePointer& sequence : now) sequence->announce();
    now.clear();
    lock.lock();
  }
}

} // namespace ridge::engine
