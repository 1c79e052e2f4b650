// Threads that answer requests, as many as are needed up to a limit, in the order in which the requests came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::server {

class Workers {
 public:
  struct Job {
    int64_t bytes = 0; // of the body that it takes apart
    // Calls its argument once the body is taken apart, at the latest when it returns. Throws nothing.
    std::function<void(const std::function<void()>& parsed)> run;
  };

  // parsed_bytes: what bodies that are being taken apart may have together; a larger one is alone then. Parsed JSON
  // takes many times its text.
  Workers(int64_t threads, int64_t parsed_bytes);
  ~Workers(); // runs the jobs that are there

  // Throws std::system_error where there is no first thread to be had; with one, jobs wait for it.
  void submit(Job job);

 private:
  void work();
  bool may_begin() const;

  const int64_t most_threads_, parsed_bytes_;
  std::mutex mutex_; // of all below
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::vector<std::thread> threads_;
  int64_t idle_ = 0, parsing_bytes_ = 0;
  bool over_ = false;
};

} // namespace ridge::server
