// Shows whether the other ranks live: a thread of each sends a beat a second.
#pragma once

#include "core/parallel/communicator.h"
#include "core/parallel/processes/connection.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ridge::core {

class Pulse {
 public:
  static constexpr double kSilenceSeconds = 7; // after which a rank counts as lost

  // `links`: by rank at rank 0 (null for itself), else the one to rank 0. Not watched before start().
  Pulse(std::vector<std::unique_ptr<Connection>> links, int rank, double silence_seconds = kSilenceSeconds);
  // Tells the others that this rank ends well.
  ~Pulse();

  // Calls `lost` once, in another thread, when a rank is gone, silent or failed.
  void start(std::function<void(const std::string& why)> lost);
  // Also fails `ranks`, until the next call. `problem` is asked every second, and tells a reason to fail or nothing.
  void watch(Communicator& ranks, std::function<std::string()> problem = {});
  // Tells the others that this rank fails. Thread-safe.
  void fail(const std::string& why);
  // Waits until all others have ended well. Throws Error if one is lost or fails.
  void wait_for_ends();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Peer {
    std::unique_ptr<Connection> link;
    int rank;
    Time heard = {};
    bool ends = false;
  };

  void run();
  void read(Peer& peer);
  void lose(const std::string& why);
  std::string problem();
  void send(char kind, const std::string& text = {});
  void wake() const;

  const int rank_;
  const std::chrono::duration<double> silence_;
  std::vector<Peer> peers_;
  int wake_;
  std::mutex mutex_; // for the fields below, and sending
  std::condition_variable changed_;
  bool failed_ = false, ends_ = false;
  std::string why_;    // a rank was lost
  size_t ended_ = 0;   // peers
  std::mutex watched_; // for the next two, and their calls
  Communicator* ranks_ = nullptr;
  std::function<std::string()> problem_;
  std::function<void(const std::string&)> lost_; // null afterwards; the thread's
  std::thread thread_;
};

} // namespace ridge::core
