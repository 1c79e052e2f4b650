#include "kernels/cpu/microbench/bandwidth.h"

#include "core/clock.h"
#include "kernels/cpu/formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/microbench/bandwidth.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/formats/simd-inl.h"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace ridge::kernels::cpu::HWY_NAMESPACE {
namespace {

// bytes: a multiple of 512; ahead > 0: prefetch distance. The result depends on all bytes.
int32_t read_all(const std::byte* data, int64_t bytes, int64_t ahead) {
  VI mix[4] = {hn::Zero(kI), hn::Zero(kI), hn::Zero(kI), hn::Zero(kI)};
  for (int64_t i = 0; i < bytes; i += 16 * kLanes) {
    if (ahead > 0)
      for (int64_t line = 0; line < 16 * kLanes; line += 64) hwy::Prefetch(data + i + ahead + line);
    for (int j = 0; j < 4; ++j) mix[j] = hn::Xor(mix[j], load_int(data + i + 4 * kLanes * j));
  }
  return hn::GetLane(hn::SumOfLanes(kI, hn::Xor(hn::Xor(mix[0], mix[1]), hn::Xor(mix[2], mix[3]))));
}

} // namespace
} // namespace ridge::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/executor/threads.h"

#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace ridge::kernels::cpu {
HWY_EXPORT(read_all);

namespace {

constexpr int64_t kMin = int64_t{256} << 20, kPiece = int64_t{1} << 20;

// Prefers /sys: on virtual machines sysconf reports up to ten times the real share.
int64_t cache_bytes() {
  std::map<std::string, int64_t> caches;
  for (int core = 0;; ++core) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index3/";
    std::string cores;
    int64_t kilobytes = 0;
    if (!(std::ifstream(folder + "shared_cpu_list") >> cores) || !(std::ifstream(folder + "size") >> kilobytes)) break;
    caches[cores] = kilobytes << 10;
  }
  int64_t bytes = 0;
  for (const auto& [cores, size] : caches) bytes += size;
  return bytes > 0 ? bytes : std::max<int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
}

int64_t buffer_bytes() {
  const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return std::max(kMin, std::min(6 * cache_bytes(), memory / 8)) / kPiece * kPiece;
}

// Huge pages: 2 to 5 % faster to read (EPYC, 2 threads), far fewer faults.
struct Mapping {
  Mapping() : bytes(buffer_bytes()) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    data = static_cast<std::byte*>(address);
    ::madvise(data, bytes, MADV_HUGEPAGE);
  }
  ~Mapping() { ::munmap(data, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const int64_t bytes;
  std::byte* data;
};

double seconds_to_read(const Mapping& buffer, int threads, int64_t ahead, int repetitions) {
  std::atomic<int32_t> sink{0};
  return core::median_seconds(repetitions, [&] {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < buffer.bytes; i += kPiece)
      sink.fetch_xor(HWY_DYNAMIC_DISPATCH(read_all)(buffer.data + i, kPiece, ahead), std::memory_order_relaxed);
  });
}

} // namespace

double measure_read_bandwidth(int threads) {
  if (threads <= 0) threads = default_threads();
  const Mapping buffer;
  // Distinct pages: untouched or equal ones might share memory.
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < buffer.bytes; i += sizeof(int64_t)) std::memcpy(buffer.data + i, &i, sizeof i);
  std::pair best(std::numeric_limits<double>::infinity(), int64_t{0});
  for (const int64_t ahead : {0, 4096, 8192})
    best = std::min(best, std::pair(seconds_to_read(buffer, threads, ahead, 1), ahead));
  return static_cast<double>(buffer.bytes) / seconds_to_read(buffer, threads, best.second, 5);
}

} // namespace ridge::kernels::cpu
#endif
