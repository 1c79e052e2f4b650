// A thread per rank, which all do the same at the same time.
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
  // failed(rank, why) is called in the thread of a rank whose work throws, while the others may still be at theirs.
  RankThreads(int ranks, std::function<void(int rank, const char* why)> failed);
  ~RankThreads();

  // work(rank) in every rank's thread. Returns when all are done; then throws what the first of them threw.
  void run(const std::function<void(int rank)>& work);

 private:
  void serve(int rank);

  const std::function<void(int, const char*)> failed_;
  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  const std::function<void(int)>* work_ = nullptr; // null: the threads end
  int64_t round_ = 0;
  int left_ = 0; // ranks that are not done
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

} // namespace ridge::core
