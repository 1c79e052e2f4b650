#include "core/host_device/round_up.h"
#include "kernels/cuda/encode/hessian_kernels.h"
#include "quant/all_formats.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

__global__ void reverse_kernel(const float* h, int64_t n, float damping, float* out) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, i = blockIdx.y;
  if (j >= n || j < i) return;
  // Reads the transpose, because H has no lower triangle.
  out[i * n + j] = h[(n - 1 - j) * n + (n - 1 - i)] + (i == j ? damping : 0.0f);
}

__global__ void small_cholesky_kernel(float* a, int64_t stride, int k, int* failed) {
  __shared__ float s[kCholeskyBlock][kCholeskyBlock + 1];
  for (int at = threadIdx.x; at < k * k; at += kThreads) s[at / k][at % k] = a[at / k * stride + at % k];
  __syncthreads();
  for (int step = 0; step < k; ++step) {
    const float pivot = s[step][step];
    const bool positive = pivot > 0.0f; // false for NaN
    const float root = positive ? sqrtf(pivot) : 1.0f;
    __syncthreads();
    if (!positive && threadIdx.x == 0) *failed = 1;
    for (int j = step + static_cast<int>(threadIdx.x); j < k; j += kThreads)
      s[step][j] = j == step ? root : s[step][j] / root;
    __syncthreads();
    const int left = k - step - 1;
    for (int at = threadIdx.x; at < left * left; at += kThreads) {
      const int i = step + 1 + at / left, j = step + 1 + at % left;
      if (j >= i) s[i][j] -= s[step][i] * s[step][j];
    }
    __syncthreads();
  }
  for (int at = threadIdx.x; at < k * k; at += kThreads)
    if (at % k >= at / k) a[at / k * stride + at % k] = s[at / k][at % k];
}

__global__ void factor_kernel(const float* u, int64_t n, float* m, float* d) {
  const int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, i = blockIdx.y;
  if (k >= n || k < i) return;
  const float* row = u + (n - 1 - k) * n;
  const float diagonal = row[n - 1 - k];
  m[i * n + k] = row[n - 1 - i] / diagonal;
  if (i == k) d[k] = diagonal * diagonal;
}

__global__ void output_error_kernel(const float* e, const float* t, const float* h, int64_t count, int64_t n,
                                    double* partial) {
  __shared__ double sums[kThreads];
  double sum = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < count; at += stride) {
    const double error = e[at];
    sum += error * (2 * static_cast<double>(t[at]) - static_cast<double>(h[at % n * (n + 1)]) * error);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

__global__ void lane_errors_kernel(const float* error, const float* gradient, int64_t cols, int64_t lanes,
                                   double* sums) {
  const int64_t lane = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (lane >= lanes) return;
  double sum = 0;
  for (int64_t at = lane; at < cols * lanes; at += lanes)
    sum -= static_cast<double>(error[at]) * static_cast<double>(gradient[at]);
  sums[lane] = sum;
}

__global__ void keep_lanes_kernel(const uint8_t* marked, const float* first, int64_t cols, int64_t lanes,
                                  float* gradient) {
  const int64_t lane = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (lane >= lanes || marked[lane]) return;
  for (int64_t at = lane; at < cols * lanes; at += lanes) gradient[at] = first[at];
}

// A warp per row, a lane per column of 32. For each column all lanes search the nearest level, then update later
// columns.
template <typename Format>
__global__ void __launch_bounds__(kThreads)
    feedback_kernel(CodeTables tables, const float* target, const float* weights, const float* m, int64_t stride,
                    int64_t rows, uint8_t* packed, float* errors) {
  constexpr int kColumns = Format::kWeights, kGroups = kColumns / 32, kMaxMidpoints = 8; // over all lanes
  __shared__ uint8_t pattern[kWarps][kColumns];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (row >= rows) return;
  float wanted[kGroups], original[kGroups], midpoint[kMaxMidpoints];
  for (int g = 0; g < kGroups; ++g) {
    wanted[g] = target[row * stride + 32 * g + lane];
    original[g] = weights[row * stride + 32 * g + lane];
  }
  const int words = (tables.ranks + 30) / 32;
  for (int w = 0; w < kMaxMidpoints; ++w)
    midpoint[w] = 32 * w + lane < tables.ranks - 1 ? tables.midpoints[32 * w + lane] : INFINITY;
  uint8_t* bytes = packed + row * static_cast<int64_t>(sizeof(Format));
  const Format& block = *reinterpret_cast<const Format*>(bytes);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    quant::Group group;
    block.unpack(g, group);
    float own_error = 0;
    for (int l = 0; l < 32; ++l) {
      const float w = __shfl_sync(~0u, wanted[g], l), o = __shfl_sync(~0u, original[g], l);
      const float scale = group.scale[l / 16], offset = Format::kHasOffset ? group.offset[l / 16] : 0.0f;
      const float level = scale != 0.0f ? (w - offset) / scale : 0.0f;
      int rank = 0;
#pragma unroll
      for (int word = 0; word < kMaxMidpoints; ++word)
        if (word < words) rank += __popc(__ballot_sync(~0u, midpoint[word] < level));
      const float error = o - (scale * tables.levels[rank] + offset);
      if (lane == l) {
        own_error = error;
        pattern[warp][32 * g + l] = tables.patterns[rank];
      }
      const float* next = m + (32 * g + l) * stride;
      if (lane > l) wanted[g] += error * next[32 * g + lane];
#pragma unroll
      for (int later = g + 1; later < kGroups; ++later) wanted[later] += error * next[32 * later + lane];
    }
    errors[row * kColumns + 32 * g + lane] = own_error;
  }
  __syncwarp();
  for (int at = lane; at < static_cast<int>(sizeof(Format)); at += 32) {
    int byte = bytes[at];
    for (int bit = 0; bit < 8; ++bit) {
      const int owner = tables.owner[8 * at + bit];
      if (owner < 0) continue;
      byte = (byte & ~(1 << bit)) | (pattern[warp][owner >> 3] >> (owner & 7) & 1) << bit;
    }
    bytes[at] = static_cast<uint8_t>(byte);
  }
}

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>(core::ceil_div(threads, kThreads)); }
dim3 triangle_grid(int64_t n) { return {blocks_of(n), static_cast<unsigned>(n)}; }

} // namespace

void launch_reverse(const float* h, int64_t n, float damping, float* out, cudaStream_t stream) {
  reverse_kernel<<<triangle_grid(n), kThreads, 0, stream>>>(h, n, damping, out);
}

void launch_small_cholesky(float* a, int64_t stride, int k, int* failed, cudaStream_t stream) {
  small_cholesky_kernel<<<1, kThreads, 0, stream>>>(a, stride, k, failed);
}

void launch_factor(const float* u, int64_t n, float* m, float* d, cudaStream_t stream) {
  factor_kernel<<<triangle_grid(n), kThreads, 0, stream>>>(u, n, m, d);
}

void launch_output_error(const float* e, const float* t, const float* h, int64_t rows, int64_t n, double* partial,
                         cudaStream_t stream) {
  output_error_kernel<<<kErrorBlocks, kThreads, 0, stream>>>(e, t, h, rows * n, n, partial);
}

void launch_lane_errors(const float* error, const float* gradient, int64_t cols, int64_t lanes, double* sums,
                        cudaStream_t stream) {
  lane_errors_kernel<<<blocks_of(lanes), kThreads, 0, stream>>>(error, gradient, cols, lanes, sums);
}

void launch_keep_lanes(const uint8_t* marked, const float* first, int64_t cols, int64_t lanes, float* gradient,
                       cudaStream_t stream) {
  keep_lanes_kernel<<<blocks_of(lanes), kThreads, 0, stream>>>(marked, first, cols, lanes, gradient);
}

void launch_feedback(quant::Type type, const CodeTables& tables, const float* target, const float* weights,
                     const float* m, int64_t stride, int64_t rows, uint8_t* packed, float* errors,
                     cudaStream_t stream) {
  using namespace quant;
  const auto launch = [&]<typename Format>(const Format*) {
    // Not for types without a file format.
    if constexpr (PackedFormat<Format> && requires(Format f, const Parts& parts) { f.pack(parts); })
      feedback_kernel<Format><<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(
          tables, target, weights, m, stride, rows, packed, errors);
  };
  switch (type) {
#define RIDGE_FORMAT(name, id, block_weights, bytes)                                                                   \
  case Type::name:                                                                                                     \
    launch(static_cast<const name*>(nullptr));                                                                         \
    break;
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
}

} // namespace ridge::kernels::cuda
