// Activations as integers (matvec_groups.cuh), in the order of the tensor cores' lanes.
#pragma once

#include "kernels/cuda/matvec/matvec_groups.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

// Formats whose products are integer dot products of codes alone.
template <typename Format>
concept DotFormat = quant::PackedFormat<Format> && !Layout<Format>::Bias::kLowers;

template <typename Format>
struct ExpertDotShape {
  using U = TileLayout<Format>;
  static constexpr int kConsumers = kDotConsumers, kFinishers = 3;
  static constexpr int kWarps = kConsumers + kFinishers + 1, kThreads = kWarps * kWarp; // the last warp fetches
  static constexpr int kMaxStages = kMaxDotStages;
  static constexpr int kRowBlockRows = U::kRowBlockRows, kRowBlocks = kBatchRows / kRowBlockRows;
  static constexpr int kPartBytes = kDotPartBytes, kUnitBytes = kDotUnitBytes;
  static constexpr int kSumBytes = kDotSumBytes, kZeroBytes = kDotZeroBytes;

  static RIDGE_HD constexpr int row(int g, int second) { return dot_row(dot_rows_spread(U::kBytes), g, second); }
};

struct ExpertDotArgs {
  BatchArgs product; // x is x_floats, in rows, or f16 with exponents; of the division of work, only row_tiles
  int stages, team, log2_team, room, row_block_pitch; // DotsCut
  Divisor row_tile_count;
};

struct alignas(16) ColumnScales {
  float scale, scaled_sum;
  int sum[2];
};

template <typename Format>
class ExpertDotInput {
  using S = ExpertDotShape<Format>;
  using L = Layout<Format>;
  static constexpr bool kLow = kLowParts<Format>;

 public:
  __device__ __forceinline__ ExpertDotInput(const BatchArgs& args, uint8_t* to, int units)
      : args_(args), to_(to), units_(units), lane_(threadIdx.x % kWarp) {}

  // In sorted order from `first`, by all multiplying warps, 256 columns of a token at a time.
  __device__ __forceinline__ void bring(int first, int tokens) const {
    const int pieces = (units_ + 1) / 2;
#pragma unroll 1
    for (int i = threadIdx.x / kWarp; i < tokens * pieces; i += S::kConsumers) {
      const int token = i / pieces, column = (i - token * pieces) * 256 + lane_ * 8;
      float v[8] = {}, factor = 1;
      const int64_t row = args_.order[first + token] / args_.used;
      if (column < args_.product.cols) load(v, row, column);
      if (!args_.x_floats) factor = exp2f(args_.product.exponent[row]);
      const EightIntegers<kLow, kGroupSums<L>> q(v);
      const int unit = column / 128, group = column / 32 % kUnitGroups, half = column / 16 % 2, part = column / 8 % 2;
      if (unit >= units_) continue;
      uint8_t* of_unit = to_ + (token * units_ + unit) * S::kUnitBytes;
      uint8_t* integers = of_unit + half * S::kPartBytes + group * 32 + part * 8;
      *reinterpret_cast<uint2*>(integers) = {q.high[0], q.high[1]};
      *reinterpret_cast<uint2*>(integers + 16) = kLow ? uint2{q.low[0], q.low[kLow ? 1 : 0]} : uint2{};
      if (lane_ % 4 == 0)
        reinterpret_cast<ColumnScales*>(of_unit + 2 * S::kPartBytes)[group] = {
            q.scale * factor, q.scaled_sum * factor, {q.half_sum, q.all - q.half_sum}};
    }
  }

 private:
  __device__ __forceinline__ void load(float (&v)[8], int64_t row, int column) const {
    if (args_.x_floats) {
      const float* from = args_.x_floats + row * args_.product.cols + column;
      put(v, *reinterpret_cast<const float4*>(from)), put(v + 4, *reinterpret_cast<const float4*>(from + 4));
      return;
    }
    const auto* x = reinterpret_cast<const uint4*>(args_.product.x);
    const uint4 halves = x[interleaved_place(args_.x_rows, row, column / 8)];
    const float2 first = halves_of(halves.x), second = halves_of(halves.y), third = halves_of(halves.z),
                 fourth = halves_of(halves.w);
    put(v, {first.x, second.x, first.y, second.y}), put(v + 4, {third.x, fourth.x, third.y, fourth.y});
  }

  const BatchArgs& args_;
  uint8_t* to_;
  int units_, lane_;
};

} // namespace ridge::kernels::cuda
