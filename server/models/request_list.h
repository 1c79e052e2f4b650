// The requests of a served model, to look at: those that run and the latest that have ended.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace ridge::server {

class RequestList {
 public:
  static constexpr size_t kMostEnded = 64; // of those that are kept

  struct Entry {
    uint64_t number = 0; // in the order in which they came
    std::string route;
    int64_t prompt_tokens = 0, answer_tokens = 0; // the latter until now
    int64_t cached_tokens = 0;                    // of the prompt; once ended
    double began = 0, seconds = 0;                // core::seconds_now() at the start; from there until now or the end
    bool ended = false;
    std::string problem; // why it ended early; empty: it did not
  };
  std::vector<Entry> all() const; // the latest first

  // A request, from here to its end. From the thread that serves it; the list must outlive it.
  class Running {
   public:
    Running(RequestList& list, std::string route, int64_t prompt_tokens);
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { end("the client has gone"); } // where nothing else was said

    void count_token();
    void end(const std::string& problem, int64_t cached_tokens = 0); // the first one counts

   private:
    RequestList& list_;
    uint64_t number_ = 0;
  };

 private:
  Entry& find(uint64_t number); // under the lock, of one that runs
  void forget_oldest();

  mutable std::mutex mutex_;
  std::deque<Entry> entries_; // the latest first
  uint64_t next_ = 1;
};

} // namespace ridge::server
