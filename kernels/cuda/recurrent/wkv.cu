// RWKV 6. A block per head, a thread per element of v; S has v fastest, for coalescing.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

struct WkvArgs {
  const float *r, *k, *v, *decay; // [tokens][heads dim]
  const float *bonus, *bias;      // [heads dim]
  float *out, *state;             // [tokens][heads dim], [streams][heads][dim (k)][dim (v)]
  int heads, dim;
  Batch batch;
};

// kDim 0: any, with S in memory.
template <int kDim>
__global__ void wkv_kernel(const __grid_constant__ WkvArgs args, Stamp* stamps) {
  extern __shared__ float shared[]; // [4][dim]: r, k, decays, bonus * k * r
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  const int first = sequence.next(-1), head = blockIdx.x, j = threadIdx.x, dim = kDim > 0 ? kDim : args.dim;
  if (first >= args.batch.tokens) return;
  const bool active = j < dim;
  const int64_t width = int64_t{args.heads} * dim, channel = int64_t{head} * dim + j;
  float *receptances = shared, *keys = receptances + dim, *decays = keys + dim, *bonus_terms = decays + dim;
  float* state = args.state + (args.batch.streams[first] * width + int64_t{head} * dim) * dim + j;
  float s[kDim > 0 ? kDim : 1];
  if (kDim > 0 && active)
#pragma unroll
    for (int i = 0; i < kDim; ++i) s[i] = state[i * dim];
  for (int t = first; t < args.batch.tokens; t = sequence.next(t)) {
    const int64_t at = t * width + channel;
    __syncthreads(); // the previous token has been read
    if (active) {
      const float r = args.r[at], k = args.k[at];
      receptances[j] = r;
      keys[j] = k;
      decays[j] = expf(-expf(args.decay[at] + args.bias[channel]));
      bonus_terms[j] = args.bonus[channel] * k * r;
    }
    __syncthreads();
    if (!active) continue;
    const bool starts = sequence.starts(t);
    const float v = args.v[at];
    float sum = 0;
    const auto step = [&](float& value, int i) {
      if (starts) value = 0;
      sum += receptances[i] * value + bonus_terms[i] * v;
      value = decays[i] * value + keys[i] * v;
    };
    if constexpr (kDim > 0) {
#pragma unroll
      for (int i = 0; i < kDim; ++i) step(s[i], i);
    } else {
      for (int i = 0; i < dim; ++i) step(state[int64_t{i} * dim], i);
    }
    args.out[at] = sum;
  }
  if (kDim > 0 && active)
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i * dim] = s[i];
}

} // namespace

void launch_wkv(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::WkvParams>(call.op.params);
  const WkvArgs args = {call.in[0],
                        call.in[1],
                        call.in[2],
                        call.in[3],
                        call.vector(0),
                        call.vector(1),
                        call.out[0],
                        call.state,
                        static_cast<int>(params.heads),
                        static_cast<int>(params.dim),
                        {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const int threads = (args.dim + kWarp - 1) / kWarp * kWarp;
  const auto run = [&](auto kernel) {
    launch(kernel, dim3(args.heads, call.sequences.count), threads, 4 * args.dim * sizeof(float), args,
           launch.stamps());
  };
  args.dim == 64 ? run(wkv_kernel<64>) : run(wkv_kernel<0>);
}

} // namespace ridge::kernels::cuda
