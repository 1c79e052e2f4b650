// Adds a block's output to residual streams, which may mix. A thread has neighbouring elements of all streams, so that
// each is read and written once.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

struct JoinArgs {
  const float *y, *x, *gates; // [rows][width], [rows][count][width], [rows][(1 + count) count] or [rows][count]
  float* out;                 // [rows][count][width]
  int64_t rows, width;
  int count;
};

template <int kCount, int kElements>
__global__ void hyper_join_kernel(const __grid_constant__ JoinArgs args, Stamp* stamps) {
  using Vector = std::conditional_t<kElements == 4, float4, float>;
  const DependentWork work(stamps);
  const int64_t pieces = args.width / kElements;
  for (int64_t i = first_index(); i < args.rows * pieces; i += index_step()) {
    const int64_t row = i / pieces, col = i % pieces * kElements;
    const float* gates = args.gates + row * (1 + kCount) * kCount;
    __align__(16) float y[kElements], x[kCount][kElements];
    *reinterpret_cast<Vector*>(y) = *reinterpret_cast<const Vector*>(args.y + row * args.width + col);
#pragma unroll
    for (int from = 0; from < kCount; ++from)
      *reinterpret_cast<Vector*>(x[from]) =
          *reinterpret_cast<const Vector*>(args.x + (row * kCount + from) * args.width + col);
#pragma unroll
    for (int to = 0; to < kCount; ++to) {
      __align__(16) float sum[kElements];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        sum[e] = gates[to] * y[e];
#pragma unroll
        for (int from = 0; from < kCount; ++from) sum[e] += gates[kCount + from * kCount + to] * x[from][e];
      }
      *reinterpret_cast<Vector*>(args.out + (row * kCount + to) * args.width + col) =
          *reinterpret_cast<const Vector*>(sum);
    }
  }
}

__global__ void unmixed_hyper_join_kernel(const __grid_constant__ JoinArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < args.rows * args.count * args.width; i += index_step()) {
    const int64_t row = i / args.width / args.count;
    args.out[i] = args.x[i] + args.gates[i / args.width] * args.y[row * args.width + i % args.width];
  }
}

__global__ void plain_hyper_join_kernel(const __grid_constant__ JoinArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const int count = args.count;
  for (int64_t i = first_index(); i < args.rows * count * args.width; i += index_step()) {
    const int64_t row = i / args.width / count, col = i % args.width;
    const int to = static_cast<int>(i / args.width % count);
    const float* gates = args.gates + row * (1 + count) * count;
    float sum = gates[to] * args.y[row * args.width + col];
    for (int from = 0; from < count; ++from)
      sum += gates[count + from * count + to] * args.x[(row * count + from) * args.width + col];
    args.out[i] = sum;
  }
}

} // namespace

void launch_hyper_join(const Launch& launch, const OpCall& call) {
  const int64_t width = call.in_width(0);
  const JoinArgs args = {
      call.in[0], call.in[1], call.in[2], call.out[0], call.rows, width, static_cast<int>(call.in_width(1) / width)};
  const auto run = [&](auto kernel, int64_t threads) {
    launch(kernel, blocks_for(launch, threads), kElementThreads, 0, args, launch.stamps());
  };
  if (call.in_width(2) == args.count) return run(unmixed_hyper_join_kernel, call.rows * args.count * width);
  if (args.count == 4 && width % 4 == 0) return run(hyper_join_kernel<4, 4>, call.rows * width / 4);
  if (args.count == 4) return run(hyper_join_kernel<4, 1>, call.rows * width);
  run(plain_hyper_join_kernel, call.rows * args.count * width);
}

} // namespace ridge::kernels::cuda
