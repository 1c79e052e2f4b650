// A thread per rank; all run the same work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::core {

class RankThreads {
 public:
  // Calls failed() in the thread whose work threw, while others may still run.
  RankThreads(int ranks, std::function<void(int rank, const char* why)> failed);
  ~RankThreads();

  // Waits for all and rethrows the first exception.
  void run(const std::function<void(int rank)>& work);

 private:
  void serve(int rank);

  const std::function<void(int, const char*)> failed_;
  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  const std::function<void(int)>* work_ = nullptr; // null: threads exit
  int64_t round_ = 0;
  int left_ = 0; // unfinished ranks
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

} // namespace ridge::core
