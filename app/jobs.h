// The window's job queue. Jobs run one at a time: each uses all cores, and measurements need an idle machine. Their
// files are written atomically.
#pragma once

#include "api/jobs.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ridge::app {

api::JobChoices job_choices();

// Estimates the remaining seconds from the time spent between two shares of the work. Negative: too early to say.
double remaining_seconds(double spent_s, double share_before, double share);

class JobQueue {
 public:
  using Jobs = std::shared_ptr<const std::vector<api::Job>>; // newest first
  // `publish` is called from the queue's threads and from start, cancel and forget, at most ten times a second.
  // `device` and `threads` override the requests'.
  JobQueue(std::function<void(Jobs)> publish, std::string device, int threads);
  ~JobQueue(); // cancels the running job and waits for it
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  void start(api::JobRequest request);
  void cancel(uint64_t id);
  void forget(uint64_t id); // removes a finished job

 private:
  struct Cancelled {};

  void work();
  void report();
  void run(api::Job& result);
  void work_on(const api::ConvertRequest& request, api::Job& result);
  void work_on(api::QuantizeRequest request, api::Job& result);
  void work_on(api::BenchRequest request, api::Job& result);
  void work_on(api::RooflineRequest request, api::Job& result);
  void work_on(const api::PullRequest& request, api::Job& result);
  void progress(std::string_view activity, double share); // throws Cancelled
  void publish();

  const std::function<void(Jobs)> publish_;
  const std::string device_;
  const int threads_;

  std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  std::vector<api::Job> jobs_;
  uint64_t last_id_ = 0, running_ = 0;
  bool closing_ = false;
  std::atomic<bool> cancel_ = false;                    // also read by pulls
  double started_s_ = 0;                                // steady clock
  double activity_began_s_ = 0, activity_began_at_ = 0; // time and share at the activity's start

  std::mutex publishing_; // keeps publications in order
  std::thread worker_, reporter_;
};

} // namespace ridge::app
