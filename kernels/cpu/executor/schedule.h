// A forward pass: a list of steps of independent items.
//
// Threads take items from each step's counter, so a delayed thread takes fewer. A phase is a run of steps without
// conflicts: the q, k and v projections are one. It begins when all items of the phase before are done, whichever
// threads did them.
#pragma once

#include "kernels/cpu/executor/helpers.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace ridge::kernels::cpu {

class Schedule {
 public:
  using Resource = int64_t;

  // A step waits for those before it that write what it reads or writes, or read what it writes. Threads may call
  // `items` at any time from then to the pass's end. `run` must not throw.
  void add(const std::set<Resource>& reads, const std::set<Resource>& writes, std::function<int64_t()> items,
           std::function<void(int64_t item, int thread)> run);
  // The calling thread is thread 0. With `seconds` (per step), each step is a phase and its time is added.
  void run(int threads, std::vector<double>* seconds = nullptr);

  void set_label(int32_t label) { label_ = label; }
  size_t size() const { return steps_.size(); }
  int32_t label(size_t step) const { return steps_[step].label; }

 private:
  struct Step {
    bool conflicts; // with the phase before
    int32_t label;
    std::function<int64_t()> items;
    std::function<void(int64_t, int)> run;
    std::atomic<int64_t> next{0}, done{0};

    Step(bool conflicts, int32_t label, std::function<int64_t()> items, std::function<void(int64_t, int)> run)
        : conflicts(conflicts), label(label), items(std::move(items)), run(std::move(run)) {}
  };
  struct Phase {
    size_t first, last;
    std::atomic<int64_t> undone; // steps

    Phase(size_t first, size_t last) : first(first), last(last), undone(last - first) {}
  };

  void make_phases(bool single_steps);
  void work(uint32_t phase, int thread);

  std::deque<Step> steps_;
  std::set<Resource> read_, written_; // in the last phase
  int32_t label_ = -1;
  std::deque<Phase> phases_; // of the current pass
  // At first no phase: a helper that looks before the first pass begins sees its phase 0 as a change, and stays awake.
  alignas(64) std::atomic<uint32_t> phase_{UINT32_MAX - 1};
  std::unique_ptr<Helpers> helpers_; // last: its threads use the rest
};

} // namespace ridge::kernels::cpu
