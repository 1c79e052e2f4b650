#include "kernels/cuda/runtime/timeline.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace ridge::kernels::cuda {
namespace {

constexpr Stamp kNever = std::numeric_limits<Stamp>::max();

double seconds_between(Stamp from, Stamp to) { return static_cast<double>(static_cast<int64_t>(to - from)) * 1e-9; }

struct KernelTime {
  Stamp first_start = kNever, first_end = kNever, last_end = 0; // 0: no stamps
  double input = 0;                                             // average seconds until a block has its input

  explicit KernelTime(std::span<const Stamp> stamps) {
    for (size_t i = 0; i < stamps.size(); i += kStampPlaces) {
      if (stamps[i + kEnds] == 0) continue;
      first_start = std::min(first_start, stamps[i + kStarts]);
      first_end = std::min(first_end, stamps[i + kEnds]);
      last_end = std::max(last_end, stamps[i + kEnds]);
    }
    int64_t blocks = 0;
    for (size_t i = 0; i < stamps.size(); i += kStampPlaces) {
      if (stamps[i + kEnds] == 0) continue;
      ++blocks;
      input += seconds_between(first_start, std::max(stamps[i + kPredecessorDone], stamps[i + kInputLoaded]));
    }
    if (blocks > 0) input /= static_cast<double>(blocks);
  }
};

} // namespace

std::vector<StepsTime> times_of_steps(const LaunchLog& log, std::span<const Stamp> stamps, size_t steps) {
  std::vector<StepsTime> times;
  Stamp end = 0;
  for (const LaunchLog::Kernel& kernel : log.kernels) {
    const KernelTime time(stamps.subspan(kernel.first_block * kStampPlaces, kernel.blocks * kStampPlaces));
    if (time.last_end == 0) continue;
    if (times.empty()) end = time.first_start;
    const double start_delay = seconds_between(end, time.first_start);
    if (times.empty() || times.back().end_step <= kernel.step) times.push_back({kernel.step + 1, 0, 0, start_delay, 0});
    StepsTime& of_step = times.back();
    const Stamp last_end = std::max(end, time.last_end);
    const double seconds = seconds_between(end, last_end);
    of_step.seconds += seconds;
    of_step.waiting += std::clamp(start_delay + time.input, 0.0, seconds);
    of_step.end_spread = seconds_between(time.first_end, time.last_end);
    end = last_end;
  }
  if (times.empty()) throw std::logic_error("CUDA: a profile of kernels without stamps");
  times.back().end_step = steps;
  return times;
}

} // namespace ridge::kernels::cuda
