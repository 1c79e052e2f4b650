// The small ops. Each is a fraction of a microsecond of memory traffic; what they cost in decoding is their launch, so
// most of them run only where no fusion took them up (plan.h), or over the many rows of a prompt.
#include "kernels/cuda/attention/heads.cuh"

#include <algorithm>
#include <cfloat>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;

int blocks_for(const Launch& launch, int64_t n) {
  return static_cast<int>(std::clamp<int64_t>((n + kThreads - 1) / kThreads, 1, launch.sm_count * int64_t{8}));
}

__device__ __forceinline__ int64_t first_index() { return blockIdx.x * int64_t{kThreads} + threadIdx.x; }
__device__ __forceinline__ int64_t index_step() { return gridDim.x * int64_t{kThreads}; }

__global__ void rms_norm_kernel(const float* x, const float* weight, float* out, int64_t group, float epsilon,
                                Stamp* stamps) {
  __shared__ float scratch[kThreads / kWarp];
  const DependentWork work(stamps);
  x += blockIdx.x * group;
  out += blockIdx.x * group;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < group; i += kThreads) squares += x[i] * x[i];
  const float inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(group) + epsilon);
  for (int64_t i = threadIdx.x; i < group; i += kThreads) out[i] = x[i] * inverse * weight[i];
}

__global__ void add_kernel(const float* a, const float* b, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = a[i] + b[i];
}

__global__ void swiglu_kernel(const float* gate, const float* up, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = gate[i] / (1 + __expf(-gate[i])) * up[i];
}

__global__ void gather_kernel(const float* x, const int32_t* rows, float* out, int64_t n, int64_t width,
                              Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n * width; i += index_step()) out[i] = x[rows[i / width] * width + i % width];
}

__global__ void permute_kernel(const float* x, int64_t group, const int32_t* order, int64_t columns, float* out,
                               int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n * columns; i += index_step())
    out[i] = x[i / columns * group + order[i % columns]];
}

__global__ void expert_sum_kernel(const float* x, const float* shares, float* out, int64_t tokens, int used,
                                  int64_t width, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < tokens * width; i += index_step()) {
    const int64_t token = i / width, col = i % width;
    float sum = 0;
    for (int s = 0; s < used; ++s) sum += shares[token * used + s] * x[(token * used + s) * width + col];
    out[i] = sum;
  }
}

// 16 bytes that are needed once and never change: they leave nothing in L1.
__device__ __forceinline__ uint4 load_past_l1(const uint4* from) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

// A block reads its 32 KB and leaves: of the ways tried, blocks that stay and stride over the memory were 1.4 % slower
// on an H200, blocks that fetch by bulk copies as fast (docs/performance/method.md).
constexpr int kReadThreads = 256, kReadsInFlight = kReadBytes / kReadThreads / 16;
__global__ void __launch_bounds__(kReadThreads) read_kernel(const uint4* data, uint32_t* sink) {
  data += size_t{blockIdx.x} * kReadThreads * kReadsInFlight + threadIdx.x;
  uint4 v[kReadsInFlight];
#pragma unroll
  for (int k = 0; k < kReadsInFlight; ++k) v[k] = load_past_l1(data + k * kReadThreads);
  uint32_t seen = 0;
#pragma unroll
  for (int k = 0; k < kReadsInFlight; ++k) seen |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  if (seen == 0x12345678) *sink = seen; // never true of what is read, which the compiler cannot know
}

// One warp per token: softmax over the experts, then `used` times the largest that is left (the first of equals).
__global__ void route_kernel(const float* x, int32_t* ids, float* shares, int64_t tokens, int experts, int used,
                             bool normalize, Stamp* stamps) {
  extern __shared__ float probabilities[]; // [experts]
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  const int lane = threadIdx.x;
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  x += token * experts;
  float largest = -FLT_MAX, sum = 0;
  for (int e = lane; e < experts; e += kWarp) largest = fmaxf(largest, x[e]);
  largest = warp_reduce(largest, larger);
  for (int e = lane; e < experts; e += kWarp) sum += probabilities[e] = expf(x[e] - largest);
  sum = warp_sum(sum);
  __syncwarp();
  float total = 0;
  for (int s = 0; s < used; ++s) {
    float best = -1;
    int best_expert = 0;
    for (int e = lane; e < experts; e += kWarp)
      if (probabilities[e] > best) best = probabilities[e], best_expert = e;
    const float top = warp_reduce(best, larger);
    const int chosen = warp_reduce(best == top ? best_expert : experts, [](int a, int b) { return min(a, b); });
    if (lane == 0) {
      ids[token * used + s] = chosen;
      shares[token * used + s] = top / sum;
      probabilities[chosen] = -1;
    }
    total += top / sum;
    __syncwarp();
  }
  if (normalize && lane == 0)
    for (int s = 0; s < used; ++s) shares[token * used + s] /= total;
}

// One block per head of q and k and per head of v, and token.
__global__ void rope_store_kernel(const __grid_constant__ RopeStoreArgs args, Stamp* stamps) {
  __shared__ float scratch[kWarp];
  extern __shared__ float head[]; // [head_dim]
  const DependentWork work(stamps);
  const int token = blockIdx.y, position = args.positions[token];
  const int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const Cache& cache = args.cache;
  int h = blockIdx.x;
  const int64_t stream = args.streams[token];
  const bool is_q = args.q_in && h < args.q_heads;
  if (args.q_in && !is_q) h -= args.q_heads;
  const bool is_k = !is_q && args.k_in && h < args.k_heads;
  if (args.k_in && !is_q && !is_k) h -= args.k_heads;

  if (!is_q && !is_k) {
    const float* v = args.v_in + (int64_t{token} * cache.heads + h) * cache.v_dim;
    const int64_t at = ((stream * cache.heads + h) * cache.context + position) * cache.v_dim;
    store_head(v, cache.v_dim, at, cache.v, cache.v_half, cache.v_scales, warp, warps);
    return;
  }
  const int heads = is_q ? args.q_heads : args.k_heads, dim = args.head_dim;
  const int64_t in_at = (int64_t{token} * heads + h) * dim;
  const float* x = (is_q ? args.q_in : args.k_in) + in_at;
  const float* norm = is_q ? args.q_norm : args.k_norm;
  float inverse = 1;
  if (norm) {
    float squares = 0;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) squares += x[i] * x[i];
    inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(dim) + args.epsilon);
  }
  for (int i = threadIdx.x; i < dim; i += blockDim.x) head[i] = norm ? x[i] * inverse * norm[i] : x[i];
  __syncthreads();
  if (args.rotate) {
    const RopeArgs& rope = args.rope;
    for (int pair = threadIdx.x; pair < rope.pairs; pair += blockDim.x) {
      const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
      rotate_pair(head[first], head[second], rope_cos_sin(rope, pair, position));
    }
    __syncthreads();
  }
  if (float* out = is_q ? args.q_out : args.k_out)
    for (int i = threadIdx.x; i < dim; i += blockDim.x) out[in_at + i] = head[i];
  const int64_t at = ((stream * cache.heads + h) * cache.context + position) * cache.k_dim;
  if (!is_q && args.store) store_head(head, dim, at, cache.k, cache.k_half, cache.k_scales, warp, warps);
}

} // namespace

void launch_rms_norm(const Launch& launch, const float* x, const float* weight, float* out, int64_t groups,
                     int64_t group, float epsilon) {
  launch(rms_norm_kernel, static_cast<unsigned>(groups), kThreads, 0, x, weight, out, group, epsilon, launch.stamps());
}
void launch_add(const Launch& launch, const float* a, const float* b, float* out, int64_t n) {
  launch(add_kernel, blocks_for(launch, n), kThreads, 0, a, b, out, n, launch.stamps());
}
void launch_swiglu(const Launch& launch, const float* gate, const float* up, float* out, int64_t n) {
  launch(swiglu_kernel, blocks_for(launch, n), kThreads, 0, gate, up, out, n, launch.stamps());
}
void launch_permute(const Launch& launch, const float* x, int64_t group, const int32_t* order, int64_t columns,
                    float* out, int64_t n) {
  launch(permute_kernel, blocks_for(launch, n * columns), kThreads, 0, x, group, order, columns, out, n,
         launch.stamps());
}
void launch_gather(const Launch& launch, const float* x, const int32_t* rows, float* out, int64_t n, int64_t width) {
  launch(gather_kernel, blocks_for(launch, n * width), kThreads, 0, x, rows, out, n, width, launch.stamps());
}
void launch_route(const Launch& launch, const float* x, int32_t* ids, float* shares, int64_t tokens, int experts,
                  int used, bool normalize) {
  launch(route_kernel, static_cast<unsigned>(tokens), kWarp, experts * sizeof(float), x, ids, shares, tokens, experts,
         used, normalize, launch.stamps());
}
void launch_expert_sum(const Launch& launch, const float* x, const float* shares, float* out, int64_t tokens, int used,
                       int64_t width) {
  launch(expert_sum_kernel, blocks_for(launch, tokens * width), kThreads, 0, x, shares, out, tokens, used, width,
         launch.stamps());
}
int compiled_for() {
  cudaFuncAttributes attributes = {};
  RIDGE_CUDA(cudaFuncGetAttributes(&attributes, add_kernel));
  return attributes.ptxVersion;
}
void launch_read(const Launch& launch, const uint8_t* data, size_t bytes, uint32_t* sink) {
  const auto blocks = static_cast<unsigned>(bytes / kReadBytes);
  launch(read_kernel, blocks, kReadThreads, 0, reinterpret_cast<const uint4*>(data), sink);
}
void launch_rope_store(const Launch& launch, const RopeStoreArgs& args) {
  const int blocks =
      (args.q_in ? args.q_heads : 0) + (args.k_in ? args.k_heads : 0) + (args.v_in ? args.cache.heads : 0);
  const int threads = std::clamp((args.head_dim / 2 + kWarp - 1) / kWarp * kWarp, kWarp, kThreads);
  launch(rope_store_kernel, dim3(blocks, args.tokens), threads, args.head_dim * sizeof(float), args, launch.stamps());
}

} // namespace ridge::kernels::cuda
