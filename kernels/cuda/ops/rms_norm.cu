// RMS norm of rows or heads, with what gates it, silu(gate) * norm(x) or norm(silu(gate) * x), or with the sum that it
// goes into.
//
// Short groups, such as the heads of a recurrent layer, take a warp each, rows a block of 256 or 1024 threads. All that
// a group needs is loaded before its sum is known, into registers, unless it is too long for that.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kOwn = 8; // elements of a thread, in registers
constexpr int kMostThreads = 1024;

__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

__device__ __forceinline__ float gated(const NormArgs& args, int64_t i) { return args.gate ? silu(args.gate[i]) : 1; }

__device__ __forceinline__ float summed(const NormArgs& args, float normed, float residual) {
  return args.residual ? args.factor * (residual + args.scale * normed) : normed;
}

// kThreads: of a group. kLong: more than kThreads * kOwn elements.
template <int kThreads, bool kLong>
__global__ void __launch_bounds__(kThreads > kElementThreads ? kThreads : kElementThreads)
    rms_norm_kernel(const __grid_constant__ NormArgs args, Stamp* stamps) {
  __shared__ float scratch[kMostThreads / kWarp];
  const OverlappingWork work(stamps);
  const bool dataflow = !kLong && args.dataflow_input;
  if (!dataflow) work.wait();
  const int64_t at = blockIdx.x * int64_t{blockDim.x / kThreads} + threadIdx.x / kThreads;
  if (at >= args.groups) { // with all the threads of a group
    if (dataflow) work.wait();
    return;
  }
  const int64_t first = at * args.group;
  const float* weight = args.weight + first % args.weights; // for each group the same, or for each of a row its own
  const int thread = threadIdx.x % kThreads, group = static_cast<int>(args.group);
  const auto inverse = [&](float squares) {
    const float sum = kThreads == kWarp ? warp_sum(squares) : block_sum(squares, scratch);
    return rsqrtf(sum / static_cast<float>(group) + args.epsilon);
  };
  float squares = 0;
  if constexpr (kLong) {
    const auto input = [&](int i) { return args.x[first + i] * (args.gates_input ? gated(args, first + i) : 1); };
    for (int i = thread; i < group; i += kThreads) squares += input(i) * input(i);
    const float scale = inverse(squares);
    for (int i = thread; i < group; i += kThreads) {
      const float normed = input(i) * scale * weight[i] * (args.gates_input ? 1 : gated(args, first + i));
      args.out[first + i] = summed(args, normed, args.residual ? args.residual[first + i] : 0);
    }
  } else {
    float x[kOwn], gate[kOwn], factor[kOwn], residual[kOwn];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int i = thread + kThreads * j;
      factor[j] = i < group ? weight[i] : 0;
      x[j] = i < group ? load_latest(args.x + first + i) : 0;
      gate[j] = args.gate && i < group ? args.gate[first + i] : 0;
      residual[j] = args.residual && i < group ? load_latest(args.residual + first + i) : 0;
    }
    while (dataflow && (is_sentinel(x) || is_sentinel(residual))) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int i = thread + kThreads * j;
        if (is_sentinel(x[j])) x[j] = load_latest(args.x + first + i);
        if (is_sentinel(residual[j])) residual[j] = load_latest(args.residual + first + i);
      }
    }
    if (dataflow) stamp(stamps, kMayGoOn);
    if (args.gate)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) (args.gates_input ? x[j] : factor[j]) *= silu(gate[j]);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) squares += x[j] * x[j];
    const float scale = inverse(squares);
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      if (const int i = thread + kThreads * j; i < group)
        store_latest(args.out + first + i, summed(args, x[j] * scale * factor[j], residual[j]));
    if (dataflow) wait_for_predecessor(); // who waits for this kernel thereby waits for those before it
  }
}

} // namespace

void launch_norm(const Launch& launch, const NormArgs& args) {
  const auto run = [&](auto kernel, int threads) {
    const int block = std::max(threads, kElementThreads);
    const int64_t groups = block / threads; // of a block
    launch(kernel, static_cast<unsigned>((args.groups + groups - 1) / groups), block, 0, args, launch.stamps());
  };
  if (args.group <= kWarp * kOwn) return run(rms_norm_kernel<kWarp, false>, kWarp);
  if (args.group <= kElementThreads * kOwn) return run(rms_norm_kernel<kElementThreads, false>, kElementThreads);
  if (args.group <= kMostThreads * kOwn) return run(rms_norm_kernel<kMostThreads, false>, kMostThreads);
  run(rms_norm_kernel<kMostThreads, true>, kMostThreads);
}

void launch_rms_norm(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::NormParams>(call.op.params);
  launch_norm(launch, {.x = call.in[0],
                       .weight = call.vector(0),
                       .gate = nullptr,
                       .out = call.out[0],
                       .groups = call.rows * call.out_width(0) / params.group,
                       .group = params.group,
                       .weights = call.weight(0).cols,
                       .epsilon = params.epsilon});
}

} // namespace ridge::kernels::cuda
