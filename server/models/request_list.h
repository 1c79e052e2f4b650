// Running and recent requests, for display.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace ridge::server {

class RequestList {
 public:
  static constexpr size_t kMaxEnded = 64;

  struct Entry {
    uint64_t number = 0;
    std::string route;
    int64_t prompt_tokens = 0, answer_tokens = 0;
    int64_t cached_tokens = 0;
    double began = 0, seconds = 0; // began: core::seconds_now(); seconds: until now or the end
    bool ended = false;
    std::string problem;
  };
  std::vector<Entry> all() const;

  // A request from its start to its end. The list must outlive it.
  class Running {
   public:
    Running(RequestList& list, std::string route, int64_t prompt_tokens);
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { end("the client disconnected"); }

    void count_token();
    void end(const std::string& problem, int64_t cached_tokens = 0); // only the first call counts

   private:
    RequestList& list_;
    uint64_t number_ = 0;
  };

 private:
  Entry& find(uint64_t number); // requires the lock; the request must be running
  void forget_oldest();

  mutable std::mutex mutex_;
  std::deque<Entry> entries_; // latest first
  uint64_t next_ = 1;
};

} // namespace ridge::server
