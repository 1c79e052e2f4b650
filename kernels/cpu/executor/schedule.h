// What the threads do in one forward(): a list of steps, each of independent items.
//
// All threads walk the list inside one parallel region and take items from a step's counter, so a thread that is held
// up takes fewer. There is a barrier before a step only if it touches what steps since the last barrier wrote, or
// writes what they read. The projections of q, k and v, for example, run without a barrier between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

namespace ridge::kernels::cpu {

class Schedule {
 public:
  using Resource = int64_t; // whatever the caller numbers: a buffer, a cache layer

  // `items` is asked at run time by every thread, after the barrier; `run(item, thread)` must not throw.
  void add(const std::set<Resource>& reads, const std::set<Resource>& writes, std::function<int64_t()> items,
           std::function<void(int64_t item, int thread)> run);
  // Runs the steps on up to `threads` threads, as many as OpenMP grants. `seconds`, where given, has one entry per
  // step: all threads then meet after each step, and its time is added to its entry.
  void run(int threads, std::vector<double>* seconds = nullptr);

  // Steps added from now on carry this label, by which the profile adds up times.
  void set_label(int32_t label) { label_ = label; }
  size_t size() const { return steps_.size(); }
  int32_t label(size_t step) const { return steps_[step].label; }

 private:
  struct Step {
    bool barrier;
    int32_t label;
    std::function<int64_t()> items;
    std::function<void(int64_t, int)> run;
    std::atomic<int64_t> next{0};

    Step(bool barrier, int32_t label, std::function<int64_t()> items, std::function<void(int64_t, int)> run)
        : barrier(barrier), label(label), items(std::move(items)), run(std::move(run)) {}
  };
  std::deque<Step> steps_;
  std::set<Resource> read_, written_; // since the last barrier
  int32_t label_ = -1;
};

} // namespace ridge::kernels::cpu
