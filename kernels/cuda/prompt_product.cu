#include "kernels/cuda/prompt_product.h"

#include "kernels/cuda/hopper.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kRowsAtOnce = 256; // operands have a multiple of this many rows, and segments start at one
constexpr int kConsumers = 2, kProductThreads = (kConsumers + 1) * 128;
constexpr int kRowBytes = kTileColumns * 2;

struct ProductSegment {
  int rows; // of out
  float* out;
  int64_t out_stride;
  const float *bias, *up_bias;
  const float* residual; // as out
};

struct ProductArgs {
  const uint8_t *x, *w;
  const int8_t* exponent;
  int tokens, token_rows;
  int w_rows, w_pitch; // rows of W that are there, and from one column tile to the next
  int steps;           // of 64 columns
  bool swiglu;         // even rows of w are gates, odd ones up
  int segments;
  ProductSegment segment[3];
};

// A block makes tiles of [128 tokens x kN rows], each in steps of 64 columns. One thread brings the operands of several
// steps ahead into shared memory; two warpgroups multiply, 64 tokens each.
template <int kN>
struct ProductShape {
  static constexpr int kXBytes = kPromptTokens * kRowBytes, kWBytes = kN * kRowBytes, kStageBytes = kXBytes + kWBytes;
  static constexpr int kStages = 196608 / kStageBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + 1024;
};

template <int kN>
__global__ void __launch_bounds__(kProductThreads, 1) product_kernel(const __grid_constant__ ProductArgs args) {
#ifdef RIDGE_HAS_WGMMA
  using Shape = ProductShape<kN>;
  extern __shared__ uint8_t dynamic[];
  __shared__ ByteBarrier full[Shape::kStages], empty[Shape::kStages];
  uint8_t* tiles = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const int group = threadIdx.x / 128, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Shape::kStages; ++s) full[s].init(1), empty[s].init(kConsumers * 4);
    fence_barrier_init();
  }
  __syncthreads();
  let_successor_start();
  wait_for_predecessor();
  const int token_tiles = args.token_rows / kPromptTokens;
  const int total = token_tiles * (args.w_rows / kN);
  int stage = 0, parity = 0;
  const auto next_stage = [&] {
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
  };
  if (group == 0) {
    give_registers<40>();
    if (threadIdx.x != 0) return;
    for (int tile = blockIdx.x; tile < total; tile += gridDim.x) {
      const uint8_t* x = args.x + int64_t{tile % token_tiles} * Shape::kXBytes;
      const uint8_t* w = args.w + int64_t{tile / token_tiles} * Shape::kWBytes;
      for (int step = 0; step < args.steps; ++step) {
        empty[stage].wait(parity ^ 1);
        full[stage].arrive_expecting(Shape::kStageBytes);
        uint8_t* to = tiles + stage * Shape::kStageBytes;
        bulk_copy(to, x + int64_t{step} * args.token_rows * kRowBytes, Shape::kXBytes, full[stage]);
        bulk_copy(to + Shape::kXBytes, w + int64_t{step} * args.w_pitch * kRowBytes, Shape::kWBytes, full[stage]);
        next_stage();
      }
    }
    return;
  }
  take_registers<232>();
  for (int tile = blockIdx.x; tile < total; tile += gridDim.x) {
    float sum[kN / 2];
    int last_stage = 0;
    for (int step = 0; step < args.steps; ++step) {
      full[stage].wait(parity);
      const uint8_t* at = tiles + stage * Shape::kStageBytes;
      const uint64_t x = tile_descriptor(at + (group - 1) * 64 * kRowBytes), w = tile_descriptor(at + Shape::kXBytes);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma(sum, x + 2 * k, w + 2 * k, step > 0 || k > 0);
      wgmma_commit();
      if (step > 0) {
        wgmma_wait<1>();
        if (lane == 0) empty[last_stage].arrive();
      }
      last_stage = stage;
      next_stage();
    }
    wgmma_wait<0>();
    if (lane == 0) empty[last_stage].arrive();

    int column = tile / token_tiles * kN, s = 0;
    const auto padded = [&](int rows) {
      return ((args.swiglu ? 2 * rows : rows) + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    };
    while (column >= padded(args.segment[s].rows)) column -= padded(args.segment[s++].rows);
    const ProductSegment& segment = args.segment[s];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = tile % token_tiles * kPromptTokens + (group - 1) * 64 + warp * 16 + lane / 4 + 8 * half;
      if (token >= args.tokens) continue;
      const float scale = exp2f(static_cast<float>(args.exponent[token] - kWeightExponent));
      float* out = segment.out + token * segment.out_stride;
      const float* residual = segment.residual ? segment.residual + token * segment.out_stride : nullptr;
      const bool pairs = segment.out_stride % 2 == 0 && reinterpret_cast<uintptr_t>(segment.out) % 8 == 0;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        float2 v = {sum[4 * j + 2 * half] * scale, sum[4 * j + 2 * half + 1] * scale};
        int row = column + 8 * j + lane % 4 * 2;
        if (args.swiglu) {
          row /= 2;
          if (row >= segment.rows) continue;
          if (segment.bias) v.x += segment.bias[row];
          if (segment.up_bias) v.y += segment.up_bias[row];
          out[row] = v.x / (1 + __expf(-v.x)) * v.y;
          continue;
        }
        if (pairs && row + 1 < segment.rows && !segment.bias) {
          if (residual) {
            const float2 r = *reinterpret_cast<const float2*>(residual + row);
            v.x += r.x, v.y += r.y;
          }
          *reinterpret_cast<float2*>(out + row) = v;
          continue;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (row + i < segment.rows)
            out[row + i] =
                (i ? v.y : v.x) + (segment.bias ? segment.bias[row + i] : 0) + (residual ? residual[row + i] : 0);
      }
    }
  }
#endif
}

template <int kN>
void launch_product(const Launch& launch, const ProductArgs& args) {
  using Shape = ProductShape<kN>;
  allow_shared(product_kernel<kN>, Shape::kSharedBytes);
  const int tiles = args.token_rows / kPromptTokens * (args.w_rows / kN);
  launch(product_kernel<kN>, std::min(tiles, launch.sm_count), kProductThreads, Shape::kSharedBytes, args);
}

int64_t padded_rows(int64_t rows) { return (rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce; }

} // namespace

bool can_multiply_prompts(const Launch& launch) {
  if (launch.shared_per_block < ProductShape<256>::kSharedBytes) return false;
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, product_kernel<256>) != cudaSuccess) return false;
  return attributes.sharedSizeBytes > 0; // the barriers: the kernel is empty where there is no wgmma
}

int64_t prompt_scratch_bytes(int64_t cols) {
  return std::max(kExpandedBytes, tiles_of(cols) * kRowsAtOnce * 3 * kRowBytes);
}

void launch_prompt_product(const Launch& launch, std::span<const PromptMatrices> matrices, bool swiglu,
                           uint8_t* scratch, int64_t scratch_bytes) {
  const GemmArgs& input = matrices[0].args;
  const int64_t tiles = tiles_of(input.cols), room = scratch_bytes / (tiles * kRowBytes) / kRowsAtOnce * kRowsAtOnce;
  const int stride = swiglu ? 2 : 1;
  const auto segments_of = [&](const GemmArgs& args) { return swiglu ? 1 : args.segments; };
  int64_t total = 0;
  for (const PromptMatrices& m : matrices)
    for (int s = 0; s < segments_of(m.args); ++s) total += padded_rows(int64_t{stride} * m.args.segment[s].rows);
  // As many passes as the scratch makes necessary, of equal size.
  const int64_t passes = (total + room - 1) / room, pass_rows = padded_rows((total + passes - 1) / passes);
  ProductArgs to = {};
  const auto multiply = [&] {
    // Wide tiles read fewer bytes per product; narrow ones may fill the last round of blocks better.
    const auto rounds = [&](int n) {
      return (to.token_rows / kPromptTokens * (to.w_rows / n) + launch.sm_count - 1) / launch.sm_count * n;
    };
    rounds(256) * 20 <= rounds(128) * 23 ? launch_product<256>(launch, to) : launch_product<128>(launch, to);
    to.segments = to.w_rows = 0;
  };
  to.x = reinterpret_cast<const uint8_t*>(input.x);
  to.w = scratch;
  to.exponent = input.exponent;
  to.tokens = input.tokens;
  to.token_rows = static_cast<int>((input.tokens + kPromptTokens - 1) / kPromptTokens * kPromptTokens);
  to.steps = static_cast<int>(tiles);
  to.swiglu = swiglu;
  to.w_pitch = static_cast<int>(passes == 1 ? total : pass_rows);
  for (const PromptMatrices& m : matrices) {
    int s = 0, done = 0; // rows of segment s that are done
    while (s < segments_of(m.args)) {
      ExpandArgs from = {};
      from.cols = m.args.cols;
      from.stride = stride;
      from.row_bytes = m.args.row_bytes;
      from.out = scratch;
      from.out_rows = to.w_pitch;
      while (s < segments_of(m.args) && to.w_rows < from.out_rows) {
        const GemmSegment& segment = m.args.segment[s];
        const int rows = static_cast<int>(std::min<int64_t>(segment.rows - done, (from.out_rows - to.w_rows) / stride));
        const auto slice = [&](const float* vector) { return vector ? vector + done : nullptr; };
        to.segment[to.segments++] = {rows,
                                     segment.out + done,
                                     segment.rows,
                                     slice(segment.bias),
                                     swiglu ? slice(m.args.segment[1].bias) : nullptr,
                                     s == 0 ? slice(m.args.residual) : nullptr};
        for (int k = 0; k < stride; ++k)
          from.segment[from.segments++] = {m.args.segment[s + k].weights + done * from.row_bytes, rows, to.w_rows + k};
        to.w_rows += static_cast<int>(padded_rows(int64_t{stride} * rows));
        done += rows;
        if (done == segment.rows) ++s, done = 0;
      }
      m.expand(launch, from);
      if (to.w_rows == from.out_rows) multiply();
    }
  }
  if (to.w_rows > 0) multiply();
}

} // namespace ridge::kernels::cuda
