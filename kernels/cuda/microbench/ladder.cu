#include "kernels/cuda/microbench/ladder.h"

#include "kernels/cuda/microbench/ladder.cuh"
#include "kernels/cuda/microbench/microbench.cuh"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/cublas.h"

#include <cmath>
#include <functional>
#include <memory>

namespace ridge::kernels::cuda {
namespace {

__global__ void fill(float* x, int64_t count, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed;
    h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu, h ^= h >> 16;
    x[i] = static_cast<float>(static_cast<int32_t>(h)) * 0x1p-31f;
  }
}

// sums[0] += ‖x - y‖², sums[1] += ‖y‖²
__global__ void compare(const float* x, const float* y, int64_t count, double* sums) {
  double difference = 0, norm = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const double d = static_cast<double>(x[i]) - y[i];
    difference += d * d;
    norm += static_cast<double>(y[i]) * y[i];
  }
  atomicAdd(sums, difference);
  atomicAdd(sums + 1, norm);
}

class Lab {
 public:
  Lab(int64_t size, const Cublas& cublas) : n_(static_cast<int>(size)), bytes_(size * size * 4), cublas_(cublas) {
    const cudaDeviceProp properties = current_device_properties();
    shared_limit_ = static_cast<int>(properties.sharedMemPerBlockOptin);
    tensor_cores_ = properties.major >= 8;
    launch_.stream = stream_.handle;
    launch_.sm_count = properties.multiProcessorCount;
    for (DeviceMemory* matrix : {&a_, &b_, &c_, &first_c_}) *matrix = DeviceMemory(bytes_, "the ladder");
    sums_ = DeviceMemory(2 * sizeof(double), "the ladder");
    launch_(fill, 1024, 256, 0, a_.as<float>(), size * size, 1u);
    launch_(fill, 1024, 256, 0, b_.as<float>(), size * size, 2u);
    ladder_.size = size;
  }
  ~Lab() { cudaStreamSynchronize(stream_.handle); }
  Lab(const Lab&) = delete;

  Ladder climb();

 private:
  struct Variant {
    std::string configuration;
    std::function<void()> run;
  };

  template <typename Tiles>
  Variant variant(std::string configuration) {
    if (n_ % Tiles::kTileM || n_ % Tiles::kTileN || Tiles::kShared > shared_limit_) return {};
    allow_dynamic_shared_memory(ladder::tiled<Tiles>, Tiles::kShared);
    return {std::move(configuration), [this] {
              launch_(ladder::tiled<Tiles>, dim3(n_ / Tiles::kTileN, n_ / Tiles::kTileM), Tiles::kThreads,
                      Tiles::kShared, n_, a_.as<const float>(), b_.as<const float>(), c_.as<float>());
            }};
  }
  template <int M, int N, int Depth, int Rows, int Cols>
  Variant vector_tiles() {
    return variant<ladder::VectorTiles<M, N, Depth, Rows, Cols>>("block " + by(M, N, Depth) + ", thread " +
                                                                 by(Rows, Cols));
  }
  template <int M, int N, int Depth, int WarpM, int WarpN, int Rows, int Cols, int Stages, int Blocks>
  Variant warp_tiles() {
    return variant<ladder::WarpTiles<M, N, Depth, WarpM, WarpN, Rows, Cols, Stages, Blocks>>(
        "block " + by(M, N, Depth) + ", warp " + by(WarpM, WarpN) + ", thread " + by(Rows, Cols) + ", " +
        std::to_string(Stages) + " stages");
  }
  template <int M, int N, int Depth, int WarpM, int WarpN, int Stages, bool Split>
  Variant tensor_tiles() {
    return variant<ladder::TensorTiles<M, N, Depth, WarpM, WarpN, Stages, Split>>(
        "block " + by(M, N, Depth) + ", warp " + by(WarpM, WarpN) + ", " + std::to_string(Stages) + " stages");
  }
  static std::string by(int m, int n) { return std::to_string(m) + "x" + std::to_string(n); }
  static std::string by(int m, int n, int k) { return by(m, n) + "x" + std::to_string(k); }
  template <typename Kernel>
  Variant plain(Kernel kernel, dim3 grid, dim3 block) {
    return {"", [=, this] {
              launch_(kernel, grid, block, 0, n_, a_.as<const float>(), b_.as<const float>(), c_.as<float>());
            }};
  }

  double time(const std::function<void()>& run) {
    const double once = median_seconds(launch_.stream, 1, run);
    return median_seconds(launch_.stream, std::clamp(static_cast<int>(0.1 / once), 3, 25), run);
  }

  void add(std::string name, std::string why, bool fp32, const std::vector<Variant>& variants) {
    const Variant* best = nullptr;
    double best_seconds = 0;
    for (const Variant& v : variants) {
      if (!v.run) continue;
      const double seconds = variants.size() == 1 ? time(v.run) : median_seconds(launch_.stream, 3, v.run);
      if (!best || seconds < best_seconds) best = &v, best_seconds = seconds;
    }
    if (!best) return;
    RIDGE_CUDA(cudaMemsetAsync(c_.as(), 0xff, bytes_, launch_.stream)); // NaN shows unwritten elements
    if (variants.size() > 1)
      best_seconds = time(best->run);
    else
      best->run();
    if (ladder_.rungs.empty())
      RIDGE_CUDA(cudaMemcpyAsync(first_c_.as(), c_.as(), bytes_, cudaMemcpyDeviceToDevice, launch_.stream));
    ladder_.rungs.push_back({std::move(name), std::move(why), best->configuration, fp32, best_seconds, difference()});
  }

  double difference() {
    RIDGE_CUDA(cudaMemsetAsync(sums_.as(), 0, sums_.bytes(), launch_.stream));
    launch_(compare, 1024, 256, 0, c_.as<const float>(), first_c_.as<const float>(), int64_t{n_} * n_,
            sums_.as<double>());
    double sums[2];
    RIDGE_CUDA(cudaMemcpyAsync(sums, sums_.as(), sizeof sums, cudaMemcpyDeviceToHost, launch_.stream));
    RIDGE_CUDA(cudaStreamSynchronize(launch_.stream));
    return std::sqrt(sums[0] / sums[1]);
  }

  int n_, shared_limit_ = 0;
  bool tensor_cores_ = false;
  size_t bytes_;
  Stream stream_;
  Launch launch_;
  DeviceMemory a_, b_, c_, first_c_, sums_;
  const Cublas& cublas_;
  Ladder ladder_;
};

Ladder Lab::climb() {
  const dim3 square(32, 32), grid(n_ / 32, n_ / 32);
  const auto time_cublas = [&] {
    return cublas_.problem().empty()
               ? time([&] { cublas_.multiply(launch_.stream, n_, a_.as<float>(), b_.as<float>(), c_.as<float>()); })
               : 0.0;
  };
  ladder_.cublas_problem = cublas_.problem();
  const double before = time_cublas();

  add("naive", "neighbouring threads follow a column: a warp's load touches 32 cache lines", true,
      {plain(ladder::naive, grid, square)});
  add("coalesced", "neighbouring threads follow a row: a warp's load is one cache line", true,
      {plain(ladder::coalesced, grid, square)});
  add("shared-memory blocks", "a block keeps 32x32 tiles in shared memory: 32 times fewer global loads", true,
      {plain(ladder::shared_blocks, grid, square)});
  add("1D thread tiles", "8 results per thread: one shared-memory read of B serves 8 products", true,
      {plain(ladder::column_tiles, dim3(n_ / 64, n_ / 64), 512)});
  add("2D thread tiles", "8x8 results per thread: 16 reads serve 64 products", true,
      {plain(ladder::square_tiles, dim3(n_ / 128, n_ / 128), 256)});
  add("vectorized", "16-byte loads and stores, A transposed in shared memory: a quarter of the load instructions", true,
      {vector_tiles<128, 128, 8, 8, 8>()});
  add("autotuned", "the same kernel with the fastest tile sizes for this GPU", true,
      {vector_tiles<128, 128, 8, 8, 8>(), vector_tiles<128, 128, 16, 8, 8>(), vector_tiles<64, 128, 16, 8, 4>(),
       vector_tiles<128, 64, 16, 8, 4>(), vector_tiles<64, 64, 16, 8, 4>(), vector_tiles<128, 256, 8, 8, 16>(),
       vector_tiles<256, 128, 8, 16, 8>()});
  add("warp tiles",
      "warps own sub-tiles (no bank conflicts), tiles load asynchronously some steps ahead, operands a column ahead",
      true,
      {warp_tiles<128, 128, 8, 32, 64, 8, 8, 4, 2>(), warp_tiles<128, 128, 8, 64, 64, 8, 16, 4, 2>(),
       warp_tiles<128, 128, 8, 64, 64, 16, 8, 4, 2>(), warp_tiles<128, 128, 8, 64, 64, 16, 8, 3, 2>(),
       warp_tiles<128, 128, 8, 64, 64, 16, 8, 6, 2>(), warp_tiles<256, 128, 8, 64, 64, 8, 16, 4, 1>(),
       warp_tiles<128, 256, 8, 64, 64, 16, 8, 4, 1>(), warp_tiles<128, 64, 8, 64, 32, 8, 8, 4, 4>()});
  if (tensor_cores_) {
    add("tensor cores, 3xTF32", "each f32 as two tf32, three products: recovers most of the precision", false,
        {tensor_tiles<128, 128, 32, 64, 32, 3, true>(), tensor_tiles<128, 128, 16, 64, 64, 4, true>(),
         tensor_tiles<128, 256, 32, 64, 64, 3, true>()});
    add("tensor cores, TF32", "operands rounded to 10 mantissa bits: faster, but not the same result", false,
        {tensor_tiles<128, 128, 32, 64, 32, 3, false>(), tensor_tiles<128, 128, 32, 64, 64, 3, false>(),
         tensor_tiles<128, 256, 32, 64, 64, 3, false>(), tensor_tiles<256, 128, 32, 64, 64, 3, false>()});
  }
  ladder_.cublas_seconds = (before + time_cublas()) / 2;
  return std::move(ladder_);
}

} // namespace

Ladder measure_ladder(int64_t size, const Cublas& cublas) { return Lab(size, cublas).climb(); }

} // namespace ridge::kernels::cuda
