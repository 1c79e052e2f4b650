// Threads that answer requests in order. They are started on demand, up to a limit.
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
    int64_t bytes = 0;
    // Calls its argument once the body is parsed, at the latest on return. Must not throw.
    std::function<void(const std::function<void()>& parsed)> run;
  };

  // `parsed_bytes` limits the bodies parsed at once (a larger one is parsed alone), since parsed JSON takes many times
  // its text.
  Workers(int64_t threads, int64_t parsed_bytes);
  ~Workers();

  // Throws std::system_error if not even one thread can be started.
  void submit(Job job);

 private:
  void work();
  bool may_begin() const;

  const int64_t most_threads_, parsed_bytes_;
  std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::vector<std::thread> threads_;
  int64_t idle_ = 0, parsing_bytes_ = 0;
  bool over_ = false;
};

} // namespace ridge::server
