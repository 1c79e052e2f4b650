#include "kernels/cpu/bandwidth.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bandwidth.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace { // compiled for several instruction sets: nothing may be merged with a twin

// Reads `bytes` (a multiple of 512) and returns something that depends on all of them.
int32_t read_all(const std::byte* data, int64_t bytes) {
  VI mix[4] = {hn::Zero(kI), hn::Zero(kI), hn::Zero(kI), hn::Zero(kI)};
  for (int64_t i = 0; i < bytes; i += 16 * kLanes) {
    prefetch<16 * kLanes>(data + i); // as the kernels do: without it they would beat the ceiling
    for (int j = 0; j < 4; ++j) mix[j] = hn::Xor(mix[j], load_int(data + i + 4 * kLanes * j));
  }
  return hn::GetLane(hn::SumOfLanes(kI, hn::Xor(hn::Xor(mix[0], mix[1]), hn::Xor(mix[2], mix[3]))));
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>

namespace ridge::kernels::cpu {
HWY_EXPORT(read_all);

double measure_read_bandwidth(int threads) {
  constexpr int64_t kBytes = int64_t{1} << 30, kPiece = int64_t{1} << 20;
  if (threads <= 0) threads = omp_get_num_procs();
  const std::unique_ptr<std::byte[]> buffer(new std::byte[kBytes]);
  std::array<double, 7> seconds;
  std::atomic<int32_t> sink{0};
  // The first pass writes the pages: untouched ones would all be the same zero page.
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (int64_t i = 0; i < kBytes; i += kPiece) std::fill_n(buffer.get() + i, kPiece, std::byte{1});
  for (double& elapsed : seconds) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < kBytes; i += kPiece)
      sink.fetch_xor(HWY_DYNAMIC_DISPATCH(read_all)(buffer.get() + i, kPiece), std::memory_order_relaxed);
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return static_cast<double>(kBytes) / seconds[seconds.size() / 2];
}

} // namespace ridge::kernels::cpu
#endif
