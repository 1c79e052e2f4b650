// RWKV 7, laid out like wkv.cu.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

struct Wkv7Args {
  const float *r, *decay, *k, *v, *direction, *rate; // [tokens][heads dim]
  float *out, *state;                                // [tokens][heads dim], [streams][heads][dim (k)][dim (v)]
  int heads, dim;
  Batch batch;
};

constexpr float kDecayScale = 0.60653066f; // exp(-1/2)

template <int kDim>
__global__ void wkv7_kernel(const __grid_constant__ Wkv7Args args, Stamp* stamps) {
  extern __shared__ float shared[]; // [5][dim]: r, k, decays, d, rate * d
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  const int first = sequence.next(-1), head = blockIdx.x, j = threadIdx.x, dim = kDim > 0 ? kDim : args.dim;
  if (first >= args.batch.tokens) return;
  const bool active = j < dim;
  const int64_t width = int64_t{args.heads} * dim, channel = int64_t{head} * dim + j;
  float *receptances = shared, *keys = receptances + dim, *decays = keys + dim, *direction = decays + dim,
        *erased = direction + dim;
  float* state = args.state + (args.batch.streams[first] * width + int64_t{head} * dim) * dim + j;
  float s[kDim > 0 ? kDim : 1];
  if (kDim > 0 && active)
#pragma unroll
    for (int i = 0; i < kDim; ++i) s[i] = state[i * dim];
  for (int t = first; t < args.batch.tokens; t = sequence.next(t)) {
    const int64_t at = t * width + channel;
    __syncthreads(); // the previous token has been read
    if (active) {
      receptances[j] = args.r[at];
      keys[j] = args.k[at];
      decays[j] = expf(-kDecayScale / (1 + expf(-args.decay[at])));
      direction[j] = args.direction[at];
      erased[j] = args.rate[at] * args.direction[at];
    }
    __syncthreads();
    if (!active) continue;
    const bool starts = sequence.starts(t);
    const float v = args.v[at];
    float found = 0, sum = 0;
    const auto find = [&](float& value, int i) {
      if (starts) value = 0;
      found += direction[i] * value;
    };
    const auto step = [&](float& value, int i) {
      value = decays[i] * value + keys[i] * v - erased[i] * found;
      sum += receptances[i] * value;
    };
    if constexpr (kDim > 0) {
#pragma unroll
      for (int i = 0; i < kDim; ++i) find(s[i], i);
#pragma unroll
      for (int i = 0; i < kDim; ++i) step(s[i], i);
    } else {
      for (int i = 0; i < dim; ++i) find(state[int64_t{i} * dim], i);
      for (int i = 0; i < dim; ++i) step(state[int64_t{i} * dim], i);
    }
    args.out[at] = sum;
  }
  if (kDim > 0 && active)
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i * dim] = s[i];
}

} // namespace

void launch_wkv7(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::WkvParams>(call.op.params);
  const Wkv7Args args = {call.in[0],
                         call.in[1],
                         call.in[2],
                         call.in[3],
                         call.in[4],
                         call.in[5],
                         call.out[0],
                         call.state,
                         static_cast<int>(params.heads),
                         static_cast<int>(params.dim),
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const int threads = (args.dim + kWarp - 1) / kWarp * kWarp;
  const auto run = [&](auto kernel) {
    launch(kernel, dim3(args.heads, call.sequences.count), threads, 5 * args.dim * sizeof(float), args,
           launch.stamps());
  };
  args.dim == 64 ? run(wkv7_kernel<64>) : run(wkv7_kernel<0>);
}

} // namespace ridge::kernels::cuda
