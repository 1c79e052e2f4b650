#include "core/parallel/rank_threads.h"

#include <utility>

namespace ridge::core {

RankThreads::RankThreads(int ranks, std::function<void(int, const char*)> failed) : failed_(std::move(failed)) {
  for (int rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::scoped_lock lock(mutex_);
    work_ = nullptr;
    ++round_;
  }
  begins_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::run(const std::function<void(int)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  left_ = static_cast<int>(threads_.size());
  failure_ = nullptr;
  ++round_;
  begins_.notify_all();
  ends_.wait(lock, [&] { return left_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void RankThreads::serve(int rank) {
  int64_t done = 0; // rounds
  std::unique_lock lock(mutex_);
  while (true) {
    begins_.wait(lock, [&] { return round_ != done; });
    done = round_;
    if (!work_) return;
    const std::function<void(int)>& work = *work_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work(rank);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      failed_(rank, error.what());
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    if (--left_ == 0) ends_.notify_all();
  }
}

} // namespace ridge::core
