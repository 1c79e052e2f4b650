// A forward pass: a list of steps of independent items.
//
// Threads take items from each step's counter, so a delayed thread takes fewer. A barrier precedes a step only if it
// conflicts with reads or writes since the last barrier: the q, k and v projections run without one.
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
  using Resource = int64_t;

  // Every thread calls `items` after the barrier. `run` must not throw.
  void add(const std::set<Resource>& reads, const std::set<Resource>& writes, std::function<int64_t()> items,
           std::function<void(int64_t item, int thread)> run);
  // With `seconds` (per step), threads meet after each step and its time is added.
  void run(int threads, std::vector<double>* seconds = nullptr);

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
