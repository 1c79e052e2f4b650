// Bandwidths; for DRAM reads see measure_read_bandwidth().
#include "kernels/cuda/microbench/microbench.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kUnroll = 4;

// Blocks change parts each pass; __ldcg bypasses L1.
__global__ void __launch_bounds__(kThreads) read_l2(const uint4* data, int64_t words, int passes, uint32_t* sink) {
  uint4 mix[kUnroll] = {};
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t block = (blockIdx.x + pass) % gridDim.x;
    for (int64_t i = block * kThreads * kUnroll + threadIdx.x; i + (kUnroll - 1) * kThreads < words;
         i += static_cast<int64_t>(gridDim.x) * kThreads * kUnroll) {
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) {
        const uint4 v = __ldcg(data + i + j * kThreads);
        mix[j].x ^= v.x, mix[j].y ^= v.y, mix[j].z ^= v.z, mix[j].w ^= v.w;
      }
    }
  }
  uint32_t all = 0;
  for (int j = 0; j < kUnroll; ++j) all ^= mix[j].x ^ mix[j].y ^ mix[j].z ^ mix[j].w;
  if (all == 0x12345678) *sink = all; // opaque to the compiler
}

__global__ void __launch_bounds__(kThreads) write_words(uint4* data, int64_t words, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t block = (blockIdx.x + pass) % gridDim.x;
    for (int64_t i = block * kThreads + threadIdx.x; i < words; i += static_cast<int64_t>(gridDim.x) * kThreads) {
      const auto value = static_cast<uint32_t>(i * 2654435761u);
      __stcg(data + i, make_uint4(value, value ^ 0x55555555, ~value, pass));
    }
  }
}

__global__ void __launch_bounds__(kThreads) copy_words(const uint4* from, uint4* to, int64_t words, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t block = (blockIdx.x + pass) % gridDim.x;
    for (int64_t i = block * kThreads * kUnroll + threadIdx.x; i + (kUnroll - 1) * kThreads < words;
         i += static_cast<int64_t>(gridDim.x) * kThreads * kUnroll) {
      uint4 held[kUnroll];
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) held[j] = __ldcg(from + i + j * kThreads);
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) __stcg(to + i + j * kThreads, held[j]);
    }
  }
}

} // namespace

void measure_memory(Bench& bench) {
  constexpr auto kUnit = core::Ceiling::Unit::bytes_per_second;
  constexpr int kRuns = 7;
  const cudaStream_t stream = bench.launch.stream;
  const int blocks = 2 * bench.launch.sm_count;

  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  const size_t bytes = std::clamp(free / 2, size_t{256} << 20, size_t{2} << 30) / 4096 * 4096;
  const DeviceMemory memory(bytes, "the bandwidth measurement"), sink(4, "the bandwidth measurement");
  auto* words = memory.as<uint4>();
  const auto rate = [&](double bytes, auto&& work) { return bytes / median_seconds(stream, kRuns, work); };
  const auto all = static_cast<int64_t>(bytes / 16);
  bench.add("dram_write", kUnit,
            rate(static_cast<double>(bytes), [&] { bench.launch(write_words, blocks, kThreads, 0, words, all, 1); }),
            "2 GiB (or half of what is free) in 16-byte stores");
  bench.add("dram_copy", kUnit,
            rate(static_cast<double>(bytes),
                 [&] { bench.launch(copy_words, blocks, kThreads, 0, words, words + all / 2, all / 2, 1); }),
            "from one half of it to the other; bytes read plus bytes written");

  const int64_t cached = bench.properties.l2CacheSize / 4; // fits one half of a split cache
  const int64_t cached_words = cached / 16 / (kThreads * kUnroll) * (kThreads * kUnroll);
  const int passes = static_cast<int>(std::max<int64_t>(1, (int64_t{4} << 30) / std::max<int64_t>(cached, 1)));
  const double moved = 16.0 * static_cast<double>(cached_words) * passes;
  if (cached_words > 0) {
    bench.add(
        "l2_read", kUnit,
        rate(moved,
             [&] { bench.launch(read_l2, blocks, kThreads, 0, words, cached_words, passes, sink.as<uint32_t>()); }),
        "a quarter of the L2, repeatedly, in 16-byte loads that bypass the L1");
    bench.add("l2_write", kUnit,
              rate(moved, [&] { bench.launch(write_words, blocks, kThreads, 0, words, cached_words, passes); }),
              "the same in 16-byte stores");
    bench.add("l2_copy", kUnit,
              rate(moved,
                   [&] {
                     bench.launch(copy_words, blocks, kThreads, 0, words, words + cached_words / 2, cached_words / 2,
                                  passes);
                   }),
              "the same from one half to the other; bytes read plus bytes written");
  }

  constexpr size_t kHostBytes = size_t{128} << 20;
  const PinnedMemory host(kHostBytes);
  std::fill_n(host.as<uint8_t>(), kHostBytes, uint8_t{0x5b});
  const auto copy = [&](void* to, const void* from) {
    return rate(kHostBytes, [&] { RIDGE_CUDA(cudaMemcpyAsync(to, from, kHostBytes, cudaMemcpyDefault, stream)); });
  };
  bench.add("host_to_device", kUnit, copy(words, host.as()), "128 MiB from page-locked memory");
  bench.add("device_to_host", kUnit, copy(host.as(), words), "128 MiB into page-locked memory");
}

} // namespace ridge::kernels::cuda
