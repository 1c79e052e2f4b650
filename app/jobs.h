// The window's jobs: a queue with a thread of its own. Jobs run one at a time, because each takes all cores and
// measurements need the machine to themselves. A job calls the same function with the same request as the command of
// its name. It ends with a result, with an error or because it was cancelled; its file is then written whole or not at
// all.
#pragma once

#include "core/view/jobs.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ridge::app {

core::JobChoices job_choices();

// Seconds until all is done of what went from one share to another in spent_s; below 0: too early to say.
double remaining_seconds(double spent_s, double share_before, double share);

class JobQueue {
 public:
  using Jobs = std::shared_ptr<const std::vector<core::Job>>; // newest first
  // publish is called from the queue's threads and from start, cancel and forget when something changed, at most ten
  // times a second while a job runs. Jobs run on `device` with `threads` CPU threads, whatever their requests say.
  JobQueue(std::function<void(Jobs)> publish, std::string device, int threads);
  ~JobQueue(); // cancels what is running and waits for it
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  void start(core::JobRequest request);
  void cancel(uint64_t id);
  void forget(uint64_t id); // takes it off the list, when it is over

 private:
  struct Cancelled {}; // thrown out of the work's progress

  void work();
  void report();
  void run(core::Job& result);
  void work_on(const core::ConvertRequest& request, core::Job& result);
  void work_on(core::QuantizeRequest request, core::Job& result);
  void work_on(core::BenchRequest request, core::Job& result);
  void work_on(core::RooflineRequest request, core::Job& result);
  void work_on(const core::PullRequest& request, core::Job& result);
  void progress(std::string_view activity, double share); // throws Cancelled
  void publish();

  const std::function<void(Jobs)> publish_;
  const std::string device_;
  const int threads_;

  std::mutex mutex_; // of the following
  std::condition_variable changed_;
  std::vector<core::Job> jobs_;        // oldest first
  uint64_t last_id_ = 0, running_ = 0; // 0: none
  bool closing_ = false;
  std::atomic<bool> cancel_ = false;                    // the running one; pulls look at it, too
  double started_s_ = 0;                                // the running job, on the steady clock
  double activity_began_s_ = 0, activity_began_at_ = 0; // its present activity, the latter a share

  std::mutex publishing_; // so that the newest list is published last
  std::thread worker_, reporter_;
};

} // namespace ridge::app
