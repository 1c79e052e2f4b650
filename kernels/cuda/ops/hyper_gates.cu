// Gates of hyper-connections: a lane per stream, which has its row of the matrix in registers.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 64;

struct GatesArgs {
  const float *x, *scale, *base; // [rows][(2 + count) count], [3], [(2 + count) count]
  float *in, *out;               // [rows][count], [rows][(1 + count) count]
  int64_t rows;
  int count, iterations; // iterations 0: no matrix
  float epsilon, magnitude, out_epsilon;
};

// kRoom: streams; those that there are not have zeros.
template <int kRoom>
__global__ void __launch_bounds__(kThreads) hyper_gates_kernel(const __grid_constant__ GatesArgs args, Stamp* stamps) {
  const OverlappingWork work(stamps);
  const int stream = threadIdx.x % kRoom, count = args.count, columns = args.iterations > 0 ? count : 0;
  const int64_t token = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kRoom;
  const bool active = stream < count && token < args.rows;
  const int places[] = {stream, count + stream, (2 + stream) * count};
  float scale[3] = {}, base[2] = {}, bases[kRoom] = {}, matrix[kRoom] = {}; // a row: [to]
  if (active) {
#pragma unroll
    for (int part = 0; part < 3; ++part)
      if (part < 2 || columns > 0) scale[part] = args.scale[part];
#pragma unroll
    for (int part = 0; part < 2; ++part) base[part] = args.base[places[part]];
#pragma unroll
    for (int to = 0; to < kRoom; ++to)
      if (to < columns) bases[to] = args.base[places[2] + to];
  }
  work.wait();

  float* out = args.out + token * (1 + columns) * count;
  if (active) {
    const float* x = args.x + token * (2 + columns) * count;
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int to = 0; to < kRoom; ++to)
      if (to < columns) largest = fmaxf(largest, matrix[to] = x[places[2] + to] * scale[2] + bases[to]);
    args.in[token * count + stream] = sigmoid(x[places[0]] * scale[0] + base[0]) + args.epsilon;
    out[stream] = args.magnitude * sigmoid(x[places[1]] * scale[1] + base[1]) + args.out_epsilon;
#pragma unroll
    for (int to = 0; to < kRoom; ++to)
      if (to < columns) sum += matrix[to] = expf(matrix[to] - largest);
#pragma unroll
    for (int to = 0; to < kRoom; ++to)
      if (to < columns) matrix[to] = matrix[to] / sum + args.epsilon;
  }
  if (columns == 0) return;
#pragma unroll 1
  for (int round = 0; round < args.iterations; ++round) {
    if (round > 0) {
      float sum = args.epsilon;
#pragma unroll
      for (int to = 0; to < kRoom; ++to) sum += matrix[to];
      const float inverse = active ? __fdividef(1, sum) : 0;
#pragma unroll
      for (int to = 0; to < kRoom; ++to) matrix[to] *= inverse;
    }
    float sum[kRoom];
#pragma unroll
    for (int to = 0; to < kRoom; ++to) sum[to] = matrix[to];
#pragma unroll
    for (int lanes = 1; lanes < kRoom; lanes *= 2)
#pragma unroll
      for (int to = 0; to < kRoom; ++to) sum[to] += __shfl_xor_sync(~0u, sum[to], lanes);
#pragma unroll
    for (int to = 0; to < kRoom; ++to) matrix[to] *= to < count ? __fdividef(1, sum[to] + args.epsilon) : 0;
  }
  if (active)
#pragma unroll
    for (int to = 0; to < kRoom; ++to)
      if (to < count) out[(1 + stream) * count + to] = matrix[to];
}

} // namespace

void launch_hyper_gates(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::HyperParams>(call.op.params);
  const GatesArgs args = {call.in[0],
                          call.vector(0),
                          call.vector(1),
                          call.out[0],
                          call.out[1],
                          call.rows,
                          static_cast<int>(params.count),
                          static_cast<int>(params.iterations),
                          params.epsilon,
                          params.magnitude,
                          params.out_epsilon};
  const auto with = [&](auto kernel, int lanes) {
    launch(kernel, static_cast<unsigned>((call.rows * lanes + kThreads - 1) / kThreads), kThreads, 0, args,
           launch.stamps());
  };
  if (params.count <= 4) return with(hyper_gates_kernel<4>, 4);
  with(hyper_gates_kernel<core::kMaxHyperStreams>, core::kMaxHyperStreams);
}

} // namespace ridge::kernels::cuda
