// Gates of hyper-connections, a warp per token.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kTokens = 4;

struct GatesArgs {
  const float *x, *scale, *base; // [rows][(2 + count) count], [3], [(2 + count) count]
  float *in, *out;               // [rows][count], [rows][(1 + count) count]
  int64_t rows;
  int count, iterations; // iterations 0: no matrix
  float epsilon, magnitude, out_epsilon;
};

__global__ void hyper_gates_kernel(const __grid_constant__ GatesArgs args, Stamp* stamps) {
  __shared__ float matrices[kTokens][core::kMaxHyperStreams][core::kMaxHyperStreams + 1]; // [from][to]
  const DependentWork work(stamps);
  const int lane = threadIdx.x % kWarp, count = args.count;
  const int64_t token = int64_t{blockIdx.x} * kTokens + threadIdx.x / kWarp;
  if (token >= args.rows) return;
  auto& matrix = matrices[threadIdx.x / kWarp];
  const int columns = args.iterations > 0 ? count : 0;
  const float* x = args.x + token * (2 + columns) * count;
  const auto affine = [&](int part, int i) { return x[i] * args.scale[part] + args.base[i]; };
  float* out = args.out + token * (1 + columns) * count;
  const bool active = lane < count;
  if (active) {
    args.in[token * count + lane] = sigmoid(affine(0, lane)) + args.epsilon;
    out[lane] = args.magnitude * sigmoid(affine(1, count + lane)) + args.out_epsilon;
  }
  if (columns == 0) return;
  if (active) {
    float largest = -INFINITY, sum = 0;
    for (int to = 0; to < count; ++to) largest = fmaxf(largest, matrix[lane][to] = affine(2, (2 + lane) * count + to));
    for (int to = 0; to < count; ++to) sum += matrix[lane][to] = expf(matrix[lane][to] - largest);
    for (int to = 0; to < count; ++to) matrix[lane][to] = matrix[lane][to] / sum + args.epsilon;
  }
  __syncwarp();
  for (int round = 0; round < args.iterations; ++round) {
    if (round > 0 && active) {
      float sum = args.epsilon;
      for (int to = 0; to < count; ++to) sum += matrix[lane][to];
      for (int to = 0; to < count; ++to) matrix[lane][to] /= sum;
    }
    __syncwarp();
    if (active) {
      float sum = args.epsilon;
      for (int from = 0; from < count; ++from) sum += matrix[from][lane];
      for (int from = 0; from < count; ++from) matrix[from][lane] /= sum;
    }
    __syncwarp();
  }
  for (int i = lane; i < count * count; i += kWarp) out[count + i] = matrix[i / count][i % count];
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
  launch(hyper_gates_kernel, static_cast<unsigned>((call.rows + kTokens - 1) / kTokens), kTokens * kWarp, 0, args,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
