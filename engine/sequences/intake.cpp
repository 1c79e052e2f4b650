#include "engine/sequences/intake.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {
namespace {

[[noreturn]] void refuse() { throw_error("the engine is shutting down and takes no more requests"); }

} // namespace

void Intake::submit(const SequencePointer& sequence) {
  const std::scoped_lock lock(mutex_);
  if (closed_ || stopping_) refuse();
  sequence->number_ = submitted_++;
  waiting_.push_back(sequence);
  changed_.notify_all();
}

void Intake::run_when_free(int32_t stream, StreamWork work) {
  std::future<void> done;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_ || stopping_) refuse();
    Job& job = jobs_.emplace_back(stream, std::packaged_task<void(StreamCache&)>(std::move(work)));
    done = job.work.get_future();
    changed_.notify_all();
  }
  try {
    done.get();
  } catch (const std::future_error&) {
    refuse();
  }
}

void Intake::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Intake::stop() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Intake::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return kept_ && ended_ == submitted_; });
}

int64_t Intake::waiting() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(waiting_);
}

Intake::Next Intake::next(bool busy) {
  std::unique_lock lock(mutex_);
  const auto works = [&] { return busy || !waiting_.empty() || !jobs_.empty(); };
  const auto keeps = [&] { return closed_ && !kept_; };
  changed_.wait(lock, [&] { return stopping_ || works() || keeps(); });
  return stopping_ ? Next::stop : works() ? Next::work : Next::keep;
}

void Intake::remove(const SequencePointer& sequence) {
  const std::scoped_lock lock(mutex_);
  std::erase(waiting_, sequence);
}

void Intake::put_back(SequencePointer sequence) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(sequence));
}

std::vector<SequencePointer> Intake::take_cancelled() {
  const std::scoped_lock lock(mutex_);
  const auto cancelled = std::ranges::stable_partition(waiting_, [](const auto& each) { return !each->cancelled(); });
  std::vector<SequencePointer> taken(cancelled.begin(), cancelled.end());
  waiting_.erase(cancelled.begin(), cancelled.end());
  return taken;
}

std::vector<SequencePointer> Intake::take_all() {
  const std::scoped_lock lock(mutex_);
  jobs_.clear(); // waiting threads get an error
  return std::exchange(waiting_, {});
}

bool Intake::interrupts(const Streams& streams) const {
  const std::scoped_lock lock(mutex_);
  return stopping_ || std::ranges::any_of(jobs_, [&](const Job& job) { return !streams[job.stream].sequence; });
}

std::vector<Intake::Job> Intake::take_jobs(const Streams& streams) {
  const std::scoped_lock lock(mutex_);
  std::vector<Job> taken;
  for (Job& job : jobs_)
    if (!streams[job.stream].sequence) taken.push_back(std::move(job));
  std::erase_if(jobs_, [](const Job& job) { return !job.work.valid(); });
  return taken;
}

void Intake::count_ended() {
  const std::scoped_lock lock(mutex_);
  ++ended_;
  changed_.notify_all();
}

bool Intake::kept() const {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

void Intake::set_kept() {
  const std::scoped_lock lock(mutex_);
  kept_ = true;
  changed_.notify_all();
}

} // namespace ridge::engine
