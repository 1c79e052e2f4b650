#include "kernels/cuda/microbench/microbench.cuh"

#include "core/clock.h"

#include <numeric>

namespace ridge::kernels::cuda {
namespace {

__global__ void empty_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n griddepcontrol.wait;" ::: "memory");
#endif
}

// The counter only grows: no resets.
__global__ void barrier_kernel(unsigned* counter, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(counter, 1);
      while (*static_cast<volatile unsigned*>(counter) < round * gridDim.x) {
      }
      __threadfence();
    }
    __syncthreads();
  }
}

// Continues the last launch's walk, so that no line is met twice.
__global__ void chase_kernel(const uint32_t* next, int steps, uint32_t* place) {
  uint32_t at = *place;
  for (int i = 0; i < steps; ++i) at = __ldcg(next + at);
  *place = at;
}

double graph_step(const Launch& launch) {
  constexpr int kKernels = 200;
  Graph graph;
  graph.capture(launch.stream, [&] {
    for (int i = 0; i < kKernels; ++i) launch(empty_kernel, launch.sm_count, 128, 0);
  });
  const double seconds =
      median_seconds(launch.stream, 9, [&] { RIDGE_CUDA(cudaGraphLaunch(graph.handle, launch.stream)); });
  return seconds / kKernels;
}

double chase(const Launch& launch, size_t bytes) {
  constexpr int kSteps = 20000;
  constexpr size_t kStride = 128 / sizeof(uint32_t); // one cache line
  const size_t lines = bytes / 128;
  std::vector<uint32_t> order(lines), next(lines * kStride);
  std::iota(order.begin(), order.end(), 0u);
  uint64_t state = 1;
  for (size_t i = lines - 1; i > 0; --i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(order[i], order[(state >> 33) % i]); // Sattolo: one cycle
  }
  for (size_t i = 0; i < lines; ++i) next[order[i] * kStride] = static_cast<uint32_t>(order[(i + 1) % lines] * kStride);
  const DeviceMemory memory(next.size() * 4, "the latency measurement"), place(4, "the latency measurement");
  RIDGE_CUDA(cudaMemcpy(memory.as(), next.data(), memory.bytes(), cudaMemcpyHostToDevice));
  RIDGE_CUDA(cudaMemset(place.as(), 0, 4));
  return median_seconds(
             launch.stream, 5,
             [&] { launch(chase_kernel, 1, 1, 0, memory.as<const uint32_t>(), kSteps, place.as<uint32_t>()); }) /
         kSteps;
}

using core::seconds_now;

} // namespace

void measure_latencies(Bench& bench) {
  constexpr auto kUnit = core::Ceiling::Unit::seconds;
  const cudaStream_t stream = bench.launch.stream;

  constexpr int kLaunches = 1000, kTrips = 101;
  for (int run = 0; run < 2; ++run) { // the first run warms up
    const double start = seconds_now();
    for (int i = 0; i < kLaunches; ++i) bench.launch(empty_kernel, 1, 32, 0);
    const double each = (seconds_now() - start) / kLaunches;
    RIDGE_CUDA(cudaStreamSynchronize(stream));
    if (run > 0) bench.add("launch", kUnit, each, "host time of one launch into a stream, 1000 in a row");
  }
  std::vector<double> trips(kTrips);
  for (double& trip : trips) {
    const double start = seconds_now();
    bench.launch(empty_kernel, 1, 32, 0);
    RIDGE_CUDA(cudaStreamSynchronize(stream));
    trip = seconds_now() - start;
  }
  std::ranges::nth_element(trips, trips.begin() + kTrips / 2);
  bench.add("launch_and_wait", kUnit, trips[kTrips / 2],
            "launching an empty kernel and waiting for it, on the host's clock");

  Launch launch = bench.launch;
  bench.add("graph_step", kUnit, graph_step(launch), "an empty kernel after another, 200 in a graph");
  if (bench.properties.major >= 9) {
    launch.overlap = true;
    bench.add("graph_step_overlapped", kUnit, graph_step(launch), "the same with programmatic dependent launch");
  }

  constexpr int kRounds = 1000;
  const DeviceMemory counter(4, "the latency measurement");
  const double barriers = median_seconds(stream, 5, [&] {
    RIDGE_CUDA(cudaMemsetAsync(counter.as(), 0, 4, stream));
    void* args[] = {nullptr, nullptr};
    unsigned* at = counter.as<unsigned>();
    int rounds = kRounds;
    args[0] = &at, args[1] = &rounds;
    // Cooperative: all blocks run at once.
    RIDGE_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(barrier_kernel), bench.launch.sm_count, 256,
                                           args, 0, stream));
  });
  bench.add("grid_barrier", kUnit, barriers / kRounds,
            "barrier of one 256-thread block per multiprocessor at a counter");
  bench.add("l2_latency", kUnit, chase(bench.launch, size_t{4} << 20), "one thread follows pointers through 4 MiB");
  bench.add("dram_latency", kUnit, chase(bench.launch, size_t{512} << 20),
            "one thread follows pointers through 512 MiB");
}

} // namespace ridge::kernels::cuda
