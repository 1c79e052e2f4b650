#include "kernels/cpu/microbench/microbench.h"

#include "core/clock.h"
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/microbench/microbench.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/dots_neon-inl.h"
#include "kernels/cpu/formats/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr int kChains = 12; // latency × issue width

// `sink` keeps the results alive.
double multiply_floats(int64_t rounds, float start, float& sink) {
  VF sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(kF, start + static_cast<float>(i));
  const VF factor = hn::Set(kF, start * 0.5f), addend = hn::Set(kF, start);
  for (int64_t round = 0; round < rounds; ++round)
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, addend);
  for (int i = 0; i < kChains; ++i) sink += sum_of(sums[i]);
  return 2.0 * static_cast<double>(kLanes * kChains * rounds);
}

template <ByteDots kDots>
HWY_INLINE VI multiply(VI sum, VI a, VI b) {
#if RIDGE_NEON
  if constexpr (kDots == ByteDots::i8mm)
    return VI(smmla(sum.raw, vreinterpretq_s8_s32(a.raw), vreinterpretq_s8_s32(b.raw)));
  return dot16<kDots, true>(sum, a, b);
#else
  return dot4(sum, a, b);
#endif
}

template <ByteDots kDots>
double multiply_bytes_by(int64_t rounds, int32_t start, int32_t& sink) {
  VI sums[kChains], factors[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Zero(kI), factors[i] = hn::Set(kI, start + i);
  const VI bytes = hn::Set(kI, start * 0x01030507);
  for (int64_t round = 0; round < rounds; ++round)
    for (int i = 0; i < kChains; ++i) sums[i] = multiply<kDots>(sums[i], bytes, factors[i]);
  for (int i = 0; i < kChains; ++i) sink ^= hn::GetLane(sums[i]);
  return (kDots == ByteDots::i8mm ? 16.0 : 8.0) * static_cast<double>(kLanes * kChains * rounds);
}
double multiply_bytes(int64_t rounds, int32_t start, int32_t& sink) {
#if RIDGE_NEON
  if (byte_dots() == ByteDots::dotprod) return multiply_bytes_by<ByteDots::dotprod>(rounds, start, sink);
  if (byte_dots() == ByteDots::i8mm) return multiply_bytes_by<ByteDots::i8mm>(rounds, start, sink);
#endif
  return multiply_bytes_by<ByteDots::basic>(rounds, start, sink);
}

// bytes: a multiple of 512.
int32_t read_passes(const std::byte* data, int64_t bytes, int64_t passes) {
  VI mix[4] = {hn::Zero(kI), hn::Zero(kI), hn::Zero(kI), hn::Zero(kI)};
  for (int64_t pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i < bytes; i += 16 * kLanes)
      for (int j = 0; j < 4; ++j) mix[j] = hn::Add(mix[j], load_int(data + i + 4 * kLanes * j));
  return hn::GetLane(hn::SumOfLanes(kI, hn::Xor(hn::Xor(mix[0], mix[1]), hn::Xor(mix[2], mix[3]))));
}

void write_memory(std::byte* data, int64_t bytes, int32_t value) { // streaming stores
  for (int64_t i = 0; i < bytes; i += 4 * kLanes)
    hn::Stream(hn::Set(kI, value + static_cast<int32_t>(i)), kI, reinterpret_cast<int32_t*>(data + i));
}

void copy_memory(const std::byte* from, std::byte* to, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 4 * kLanes)
    hn::Stream(load_int(from + i), kI, reinterpret_cast<int32_t*>(to + i));
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/executor/memory.h"
#include "kernels/cpu/executor/schedule.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cpu/microbench/bandwidth.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace ridge::kernels::cpu {
HWY_EXPORT(multiply_floats);
HWY_EXPORT(multiply_bytes);
HWY_EXPORT(read_passes);
HWY_EXPORT(write_memory);
HWY_EXPORT(copy_memory);

namespace {

using Unit = core::Ceiling::Unit;

// Median amount per second; work(thread, team) returns each thread's amount. `team`: granted threads.
template <typename Work>
double rate(int threads, Work&& work) {
  std::vector<double> rates(5);
  for (double& r : rates) {
    double amount = 0;
    const double start = core::seconds_now();
#pragma omp parallel num_threads(threads) reduction(+ : amount)
    amount += work(omp_get_thread_num(), omp_get_num_threads());
    r = amount / (core::seconds_now() - start);
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

std::atomic<int32_t> sink{0};

void measure_memory(int threads, std::vector<core::Ceiling>& ceilings) {
  constexpr int64_t kBytes = int64_t{1} << 30, kPiece = int64_t{1} << 20;
  ceilings.push_back({"dram_read", Unit::bytes_per_second, measure_read_bandwidth(threads),
                      "256 MiB or six times the last-level cache, the better of with and without software prefetch"});
  const Memory memory(kBytes, "the bandwidth measurement");
  auto* data = memory.as<std::byte>();
  const auto share = [](int thread, int team) {
    const int64_t pieces = kBytes / 2 / kPiece;
    return std::pair(pieces * thread / team * kPiece, pieces * (thread + 1) / team * kPiece);
  };
  const auto write = [&](int thread, int team) {
    const auto [first, last] = share(thread, team);
    HWY_DYNAMIC_DISPATCH(write_memory)(data + 2 * first, 2 * (last - first), thread);
    return 2.0 * static_cast<double>(last - first);
  };
  rate(threads, write);
  ceilings.push_back({"dram_write", Unit::bytes_per_second, rate(threads, write), "1 GiB in streaming stores"});
  const auto copy = [&](int thread, int team) {
    const auto [first, last] = share(thread, team);
    HWY_DYNAMIC_DISPATCH(copy_memory)(data + first, data + kBytes / 2 + first, last - first);
    return 2.0 * static_cast<double>(last - first);
  };
  ceilings.push_back(
      {"dram_copy", Unit::bytes_per_second, rate(threads, copy), "0.5 GiB to another; bytes read plus bytes written"});

  const struct {
    const char* name;
    int level;
    bool shared;
  } caches[] = {{"l1_read", _SC_LEVEL1_DCACHE_SIZE, false},
                {"l2_read", _SC_LEVEL2_CACHE_SIZE, false},
                {"l3_read", _SC_LEVEL3_CACHE_SIZE, true}};
  for (const auto& cache : caches) {
    const int64_t size = ::sysconf(cache.level) / (cache.shared ? threads : 1);
    const int64_t bytes = std::min(size / 2, kBytes / threads) / 4096 * 4096;
    if (bytes <= 0) continue;
    const int64_t passes = std::max<int64_t>(1, (int64_t{256} << 20) / bytes);
    const double reads = rate(threads, [&](int thread, int) {
      sink.fetch_xor(HWY_DYNAMIC_DISPATCH(read_passes)(data + thread * bytes, bytes, passes),
                     std::memory_order_relaxed);
      return static_cast<double>(bytes * passes);
    });
    ceilings.push_back({cache.name, Unit::bytes_per_second, reads,
                        cache.shared ? "half of the cache, divided among the threads" : "half of each core's cache"});
  }
}

} // namespace

std::vector<core::Ceiling> measure_rates(int threads) {
  if (threads <= 0) threads = default_threads();
  constexpr int64_t kRounds = 1 << 20; // about 5 ms
  std::vector<core::Ceiling> ceilings;
  ceilings.push_back({"int8", Unit::operations_per_second,
                      rate(threads,
                           [&](int thread, int) {
                             int32_t sum = 0;
                             const double done = HWY_DYNAMIC_DISPATCH(multiply_bytes)(kRounds, thread + 3, sum);
                             sink.fetch_xor(sum, std::memory_order_relaxed);
                             return done;
                           }),
                      "dot products of bytes in registers, as in the kernels"});
  ceilings.push_back({"fp32", Unit::operations_per_second,
                      rate(threads,
                           [&](int thread, int) {
                             float sum = 0;
                             const double done =
                                 HWY_DYNAMIC_DISPATCH(multiply_floats)(kRounds, 0.5f + static_cast<float>(thread), sum);
                             sink.fetch_xor(sum > 1, std::memory_order_relaxed);
                             return done;
                           }),
                      "multiply-adds in registers"});
  return ceilings;
}

std::vector<core::Ceiling> measure_ceilings(int threads) {
  if (threads <= 0) threads = default_threads();
  std::vector<core::Ceiling> ceilings;
  measure_memory(threads, ceilings);
  for (core::Ceiling& c : measure_rates(threads)) ceilings.push_back(std::move(c));

  constexpr int kSteps = 2000;
  Schedule schedule;
  for (int i = 0; i < kSteps; ++i)
    schedule.add(
        {}, {0}, [threads] { return threads; }, [](int64_t, int) {});
  const double seconds = core::median_seconds(5, [&] { schedule.run(threads); }) / kSteps;
  ceilings.push_back(
      {"barrier", Unit::seconds, seconds, "from a step of an empty item per thread to the next, which waits for it"});
  return ceilings;
}

} // namespace ridge::kernels::cpu
#endif
