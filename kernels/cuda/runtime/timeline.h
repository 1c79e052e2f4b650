// Stamps of a profile: kernels write the GPU's clock (stamp() in ptx.cuh). Without a profile a stamp costs a branch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ridge::kernels::cuda {

using Stamp = unsigned long long; // global clock in ns; 0: not written

// kPredecessorDone: the predecessor is done; kInputLoaded: inputs are loaded; kEnds: of the last warp. Idle blocks
// write no end.
enum StampPlace { kStarts, kPredecessorDone, kInputLoaded, kEnds, kStampPlaces };

struct LaunchLog {
  struct Kernel {
    size_t step, first_block, blocks;
  };
  Stamp* stamps = nullptr; // [blocks][kStampPlaces]; null: only counts
  size_t step = 0;         // the plan's step that is being launched
  size_t blocks = 0;
  std::vector<Kernel> kernels;

  void add(size_t kernel_blocks) {
    kernels.push_back({step, blocks, kernel_blocks});
    blocks += kernel_blocks;
  }
};

// Times of a step, or of neighbouring steps that share kernels.
struct StepsTime {
  size_t end_step;    // one past the last
  double seconds;     // from the previous end to its last block's end
  double waiting;     // part of these before blocks had their input, on average
  double start_delay; // first block's start after the previous end; mostly negative
  double end_spread;  // between the first and the last block's end in its last kernel
};

// `stamps`: of one run, to which the times add up. Steps and kernels without stamps count towards the next.
std::vector<StepsTime> times_of_steps(const LaunchLog& log, std::span<const Stamp> stamps, size_t steps);

} // namespace ridge::kernels::cuda
