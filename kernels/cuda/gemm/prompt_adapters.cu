#include "kernels/cuda/gemm/prompt_adapters.h"

#include "core/program.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/runtime/warp.cuh"

#include <cuda_fp16.h>

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kWeightScale = 1 << kWeightExponent;
// The limit of z for inputs up to 1 may reach 2^(kLog2Headroom + 1). With inputs at their loose bound of 2^16, z then
// saturates at a sixteenth of that limit. Inputs of down stay far below this bound; a lower limit would leave their A x
// among the smallest numbers of f16.
constexpr int kLog2Headroom = 3;
constexpr int kMostBalanced = 17; // B's largest values stay above 2^-3

// A block computes z for 32 tokens and a tile of 64 columns: a warp sums every eighth tile of A x for 16 tokens.
constexpr int kZTokens = 32, kZParts = 8, kZThreads = kZTokens / 16 * kZParts * kWarp;
constexpr int kZPitch = kTileColumns + 4; // floats

// Neighbouring halves of a 16-byte piece, as operands of mma: any order of columns will do, if x and A agree.
__device__ __forceinline__ void multiply_piece(float (&sum)[4], const uint4& x, const uint4& x_of_lower_rows,
                                               const uint4& a) {
  mma_16x8x16(sum, {x.x, x_of_lower_rows.x, x.y, x_of_lower_rows.y}, a.x, a.y);
  mma_16x8x16(sum, {x.z, x_of_lower_rows.z, x.w, x_of_lower_rows.w}, a.z, a.w);
}

__global__ void __launch_bounds__(kZThreads)
    prompt_adapter_input_kernel(const __grid_constant__ PromptAdapterInput args, Stamp* stamps) {
  constexpr int kEights = kTileColumns / 8;
  __shared__ float sums[kZTokens][kZPitch];
  const DependentWork work(stamps);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, group = lane / 4, quarter = lane % 4;
  const int first_token = blockIdx.x * kZTokens, first_row = warp / kZParts * 16, part = warp % kZParts;
  const int first_eight = blockIdx.y * kEights, eights = min(kEights, args.eights - first_eight);
  float sum[kEights][4] = {};
  const int tiles = args.cols / kTileColumns;
  for (int tile = part; tile < tiles; tile += kZParts) {
    uint4 x[2][2]; // [upper, lower eight rows][half of a tile's row]
    const uint16_t* rows = args.x + (int64_t{tile} * args.token_rows + first_token + first_row + group) * kTileColumns;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[lower][half] =
            *reinterpret_cast<const uint4*>(rows + lower * 8 * kTileColumns + ((half * 4 + quarter) ^ group) * 8);
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      if (n >= eights) continue;
      const uint16_t* a = args.eight[first_eight + n].a + int64_t{group} * args.cols + tile * kTileColumns;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        multiply_piece(sum[n], x[0][half], x[1][half], *reinterpret_cast<const uint4*>(a + (half * 4 + quarter) * 8));
    }
  }
#pragma unroll 1
  for (int turn = 0; turn < kZParts; ++turn) {
    if (turn == part)
#pragma unroll
      for (int n = 0; n < kEights; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& to = sums[first_row + group + i / 2 * 8][n * 8 + quarter * 2 + i % 2];
          to = turn == 0 ? sum[n][i] : to + sum[n][i];
        }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < kZTokens * kTileColumns; i += kZThreads) {
    const int row = i / kTileColumns, column = i % kTileColumns, in_batch = first_token + row;
    if (in_batch >= args.tokens) continue;
    float z = 0;
    if (column < eights * 8) {
      const PromptAdapterInput::Eight& eight = args.eight[first_eight + column / 8];
      const int token = args.outputs ? args.outputs[in_batch] : in_batch, k = column % 8;
      const core::AdapterUse use = args.uses[args.streams[token] * args.stream_adapters + eight.adapters[k]];
      const float scale = args.positions[token] >= use.from ? use.scale * eight.factors[k] * kWeightScale : 0;
      const float limit = fminf(eight.limits[k] * args.largest, 65504);
      z = scale == 0 ? 0 : fminf(fmaxf(scale * sums[row][column], -limit), limit); // 0 * infinity: NaN
    }
    args.z[(int64_t{blockIdx.y} * args.token_rows + in_batch) * kTileColumns + (column / 8 ^ (in_batch & 7)) * 8 +
           column % 8] = __half_as_ushort(__float2half_rn(z));
  }
}

// A thread writes a piece of eight columns.
__global__ void __launch_bounds__(kThreads)
    prompt_adapter_weights_kernel(const __grid_constant__ PromptAdapterWeights args) {
  let_successor_start();
  wait_for_predecessor();
  constexpr int kPieces = kTileColumns / 8;
  const PromptAdapterRows& segment = args.segment[blockIdx.y];
  const int pieces = args.tiles * kPieces, i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = i / pieces, piece = i % pieces, column = piece * 8 - segment.first_column;
  if (row >= segment.rows) return;
  uint4 values = {};
  if (segment.b && column >= 0 && column < segment.columns)
    values = *reinterpret_cast<const uint4*>(segment.b + row * segment.pitch + column);
  const int to = segment.first + row * args.stride;
  reinterpret_cast<uint4*>(
      args.out)[(int64_t{piece / kPieces} * args.out_rows + to) * kPieces + (piece % kPieces ^ (to & 7))] = values;
}

__device__ __forceinline__ float magnitude(uint16_t half) { return fabsf(__half2float(__ushort_as_half(half))); }

// A block per row of A and column of B.
__global__ void balance_kernel(const __grid_constant__ BalancedAdapter adapter) {
  __shared__ float scratch[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < adapter.cols; i += kThreads) sum += magnitude(adapter.a[row * adapter.cols + i]);
  sum = block_sum(sum, scratch);
  const float limit = kMostPromptScale * kWeightScale * fabsf(adapter.factors[row]) * sum;
  const int exponent = limit > 0 ? min(max(kLog2Headroom - ilogbf(limit), 0), kMostBalanced) : 0;
  for (int64_t i = threadIdx.x; i < adapter.rows; i += kThreads) {
    uint16_t& b = adapter.b[i * adapter.stride + row];
    b = __half_as_ushort(__float2half_rn(scalbnf(__half2float(__ushort_as_half(b)), -exponent)));
  }
  __syncthreads(); // all threads have read the factor
  if (threadIdx.x > 0) return;
  adapter.limits[row] = scalbnf(limit, exponent);
  for (float* const factors : {adapter.factors, adapter.more_factors}) factors[row] = scalbnf(factors[row], exponent);
}

// One block.
__global__ void bound_kernel(const uint16_t* b, int64_t rows, int64_t stride, int64_t rank, const float* limits,
                             ProductBound* bound) {
  __shared__ float scratch[kThreads / kWarp];
  float largest = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    float sum = 0;
    for (int64_t i = 0; i < rank; ++i) sum += magnitude(b[row * stride + i]) * limits[i];
    largest = fmaxf(largest, sum);
  }
  largest = warp_reduce(largest, [](float one, float other) { return fmaxf(one, other); });
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (const float other : scratch) largest = fmaxf(largest, other);
  bound->row_sum += largest / kWeightScale;
}

} // namespace

void launch_prompt_adapter_input(const Launch& launch, std::span<const PromptAdapter> adapters,
                                 PromptAdapterInput input) {
  for (const PromptAdapter& adapter : adapters)
    for (int first = 0; first < adapter.args.padded; first += 8)
      input.eight[input.eights++] = {adapter.a + int64_t{first} * input.cols, adapter.factors + first,
                                     adapter.limits + first, adapter.args.adapters + first};
  const auto blocks = static_cast<unsigned>((input.tokens + kZTokens - 1) / kZTokens),
             tiles = static_cast<unsigned>(tiles_of(input.eights * 8));
  launch(prompt_adapter_input_kernel, dim3(blocks, tiles), kZThreads, 0, input, launch.stamps());
}

void launch_prompt_adapter_weights(const Launch& launch, const PromptAdapterWeights& weights) {
  int most = 0;
  for (int s = 0; s < weights.segments; ++s) most = std::max(most, weights.segment[s].rows);
  const int pieces = most * weights.tiles * (kTileColumns / 8);
  launch(prompt_adapter_weights_kernel,
         dim3(static_cast<unsigned>((pieces + kThreads - 1) / kThreads), static_cast<unsigned>(weights.segments)),
         kThreads, 0, weights);
}

void balance_prompt_adapter(const Launch& launch, const BalancedAdapter& adapter) {
  launch(balance_kernel, static_cast<unsigned>(adapter.rank), kThreads, 0, adapter);
}

void add_adapter_bound(const Launch& launch, const uint16_t* b, int64_t rows, int64_t stride, int64_t rank,
                       const float* limits, ProductBound* bound) {
  launch(bound_kernel, 1, kThreads, 0, b, rows, stride, rank, limits, bound);
}

} // namespace ridge::kernels::cuda
