// RMS norm, optionally with a gate or a sum. Short groups take a warp; all loads precede the sum, into registers,
// unless groups are too long.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kOwn = 8;
constexpr int kMaxThreads = 1024;

__device__ __forceinline__ float summed(const NormArgs& args, float normed, float residual) {
  return args.residual ? args.factor * (residual + args.scale * normed) : normed;
}

struct Group {
  int64_t first;
  const float* weight;
  int size;

  __device__ __forceinline__ Group(const NormArgs& args, int64_t at) : first(at * args.group) {
    const int number = static_cast<int>(at);
    size = static_cast<int>(args.group);
    weight = args.weight + (number - args.weight_groups.quotient(number) * args.weight_groups.by) * size;
  }
};

// kThreads: per group, which consists of quads.
template <int kThreads>
__global__ void __launch_bounds__(kThreads > kElementThreads ? kThreads : kElementThreads)
    rms_norm_kernel(const __grid_constant__ NormArgs args, Stamp* stamps) {
  __shared__ float scratch[kMaxThreads / kWarp];
  const OverlappingWork work(stamps);
  const int64_t at = blockIdx.x * int64_t{blockDim.x / kThreads} + threadIdx.x / kThreads;
  if (at >= args.groups) return work.wait(); // uniform over a group
  const Group group(args, at);
  const bool dataflow = args.dataflow_input;
  float x[kOwn] = {}, gate[kOwn] = {}, factor[kOwn] = {}, residual[kOwn] = {};
  // Calls use(k, i) for this thread's quads: k in the arrays, i in the group.
  const auto for_quads = [&](auto&& use) {
#pragma unroll
    for (int k = 0; k < kOwn; k += 4)
      if (const int i = 4 * static_cast<int>(threadIdx.x % kThreads) + kThreads * k; i < group.size) use(k, i);
  };
  for_quads([&](int k, int i) { put(factor + k, *reinterpret_cast<const float4*>(group.weight + i)); });
  if (!dataflow) work.wait();
  const float *from = args.x + group.first, *added = args.residual + group.first;
  for_quads([&](int k, int i) {
    put(x + k, load_latest_4(from + i));
    if (args.gate) put(gate + k, *reinterpret_cast<const float4*>(args.gate + group.first + i));
    if (args.residual) put(residual + k, load_latest_4(added + i));
  });
  while (dataflow && (is_sentinel(x) || is_sentinel(residual)))
    for_quads([&](int k, int i) {
      put(x + k, load_latest_4(from + i));
      if (args.residual) put(residual + k, load_latest_4(added + i));
    });
  if (dataflow) stamp(stamps, kPredecessorDone);
  if (args.gate)
#pragma unroll
    for (int k = 0; k < kOwn; ++k) (args.gates_input ? x[k] : factor[k]) *= silu(gate[k]);
  float squares = 0;
#pragma unroll
  for (const float own : x) squares += own * own;
  const float sum = kThreads == kWarp ? warp_sum(squares) : block_sum(squares, scratch);
  const float scale = rsqrtf(sum / static_cast<float>(group.size) + args.epsilon);
  for_quads([&](int k, int i) {
    const auto result = [&](int c) { return summed(args, x[c] * scale * factor[c], residual[c]); };
    store_latest(args.out + group.first + i, float4{result(k), result(k + 1), result(k + 2), result(k + 3)});
  });
  if (dataflow) wait_for_predecessor(); // successors rely on it (ptx.cuh)
}

__global__ void __launch_bounds__(kMaxThreads) long_norm_kernel(const __grid_constant__ NormArgs args, Stamp* stamps) {
  __shared__ float scratch[kMaxThreads / kWarp];
  const DependentWork work(stamps);
  const Group group(args, blockIdx.x);
  const auto gated = [&](int i) { return args.gate ? silu(args.gate[group.first + i]) : 1; };
  const auto input = [&](int i) { return args.x[group.first + i] * (args.gates_input ? gated(i) : 1); };
  float squares = 0;
  for (int i = threadIdx.x; i < group.size; i += kMaxThreads) squares += input(i) * input(i);
  const float scale = rsqrtf(block_sum(squares, scratch) / static_cast<float>(group.size) + args.epsilon);
  for (int i = threadIdx.x; i < group.size; i += kMaxThreads) {
    const float normed = input(i) * scale * group.weight[i] * (args.gates_input ? 1 : gated(i));
    args.out[group.first + i] = summed(args, normed, args.residual ? args.residual[group.first + i] : 0);
  }
}

} // namespace

void launch_norm(const Launch& launch, const NormArgs& args) {
  const auto run = [&](auto kernel, int threads) {
    const int block = std::max(threads, kElementThreads);
    const int64_t groups = block / threads;
    launch(kernel, static_cast<unsigned>((args.groups + groups - 1) / groups), block, 0, args, launch.stamps());
  };
  if (args.group % 4 != 0 || args.group > kMaxThreads * kOwn) return run(long_norm_kernel, kMaxThreads);
  if (args.group <= kWarp * kOwn) return run(rms_norm_kernel<kWarp>, kWarp);
  if (args.group <= kElementThreads * kOwn) return run(rms_norm_kernel<kElementThreads>, kElementThreads);
  run(rms_norm_kernel<kMaxThreads>, kMaxThreads);
}

void launch_rms_norm(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::NormParams>(call.op.params);
  launch_norm(launch, {.x = call.in[0],
                       .weight = call.vector(0),
                       .gate = nullptr,
                       .out = call.out[0],
                       .groups = call.rows * call.out_width(0) / params.group,
                       .group = params.group,
                       .weight_groups = Divisor(call.weight(0).cols / params.group),
                       .epsilon = params.epsilon});
}

} // namespace ridge::kernels::cuda
