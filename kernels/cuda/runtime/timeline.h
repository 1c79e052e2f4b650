// When the blocks of a step's kernels start, may go on and end: what a profile is made of. While a profile is taken,
// kernels write the GPU's clock at a few places (stamp() in ptx.cuh); else each place costs them a branch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ridge::kernels::cuda {

using Stamp = unsigned long long; // ns of the clock that all multiprocessors share; 0: not written

// What a block writes. kMayGoOn: its predecessor is done. kHasInput: it has fetched what it computes from, in kernels
// that take a while for that. kEnds: the last of its warps that writes one; blocks that have nothing to do leave
// without.
enum StampPlace { kStarts, kMayGoOn, kHasInput, kEnds, kStampPlaces };

// The kernels of a step, in the order of their launches.
struct LaunchLog {
  struct Kernel {
    size_t step, first_block, blocks;
  };
  Stamp* stamps = nullptr; // [blocks][kStampPlaces] in device memory; null: kernels are only counted
  size_t step = 0;         // of the plan: what is being launched
  size_t blocks = 0;       // of all kernels so far
  std::vector<Kernel> kernels;

  void add(size_t kernel_blocks) {
    kernels.push_back({step, blocks, kernel_blocks});
    blocks += kernel_blocks;
  }
};

// How long a step took, or several neighbouring ones that have no times of their own.
struct StepsTime {
  size_t end_step;   // behind the last of them
  double seconds;    // from the end of what was before to the end of their last block
  double waiting;    // of these, until their blocks had their input, on average
  double starts;     // when their first block started, after the end of what was before: mostly negative
  double ends_apart; // from the first to the last end of their last kernel's blocks
};

// `stamps`: what the kernels of one run wrote. Together the times are that of the run, from its first block's start on.
// A step that launched nothing, its work being done in another one's kernel, counts to the next that did, and so does
// a kernel without stamps.
std::vector<StepsTime> times_of_steps(const LaunchLog& log, std::span<const Stamp> stamps, size_t steps);

} // namespace ridge::kernels::cuda
