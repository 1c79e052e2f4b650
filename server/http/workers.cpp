#include "server/http/workers.h"

#include <malloc.h>
#include <system_error>
#include <utility>

namespace ridge::server {
namespace {

// glibc keeps freed memory of parsed bodies per thread, so it is trimmed after these
constexpr int64_t kLargeBody = 1 << 20;

} // namespace

Workers::Workers(int64_t threads, int64_t parsed_bytes) : most_threads_(threads), parsed_bytes_(parsed_bytes) {}

Workers::~Workers() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::submit(Job job) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(job));
  if (idle_ < std::ssize(waiting_) && std::ssize(threads_) < most_threads_) try {
      threads_.emplace_back([this] { work(); });
    } catch (...) {
      if (threads_.empty()) {
        waiting_.pop_back();
        throw;
      }
    }
  changed_.notify_one();
}

bool Workers::may_begin() const {
  return !waiting_.empty() && (parsing_bytes_ == 0 || parsing_bytes_ + waiting_.front().bytes <= parsed_bytes_);
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [&] { return may_begin() || (over_ && waiting_.empty()); });
    --idle_;
    if (waiting_.empty()) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    parsing_bytes_ += job.bytes;
    lock.unlock();
    bool parsing = true;
    const auto parsed = [&] {
      if (!std::exchange(parsing, false)) return;
      const std::scoped_lock again(mutex_);
      parsing_bytes_ -= job.bytes;
      changed_.notify_all();
    };
    job.run(parsed);
    parsed();
    job.run = nullptr; // releases captures before locking
    if (job.bytes >= kLargeBody) malloc_trim(0);
    lock.lock();
  }
}

} // namespace ridge::server
