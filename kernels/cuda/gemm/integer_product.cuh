// out = x Wᵀ for prompts by int8 mma, four times as fast as f16 with f32 sums on GeForce cards. Activations are 8-bit
// in groups of 32 (HalfLayout::bytes); scales and offsets are f32.
//
// The f32 units are nearly as busy as the tensor cores, so integer sums start with the bits of 1.5 · 2^23 and are the
// float 1.5 · 2^23 + sum without conversion. One fma with the row's scale removes the constant (exactly: few scales
// have more than 18 significant bits), one with the token's scale adds to the result.
#pragma once

#include "kernels/cuda/gemm/integer_product.h"
#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/half_layout.h"

namespace ridge::kernels::cuda {

// Offsets multiply the sum of a group's activations; two per group would need two sums.
template <typename Format>
concept IntegerFormat = quant::PackedFormat<Format> && !(Layout<Format>::kHalfScales && Layout<Format>::kHasOffset);

// A block computes kTokens x kRows in steps of kColumns, a warp 64 x 32.
template <IntegerFormat Format>
struct IntegerShape {
  using L = Layout<Format>;
  static constexpr int kTokens = kByteTokens, kRows = kIntegerRows, kColumns = kByteColumns;
  static constexpr int kWarpTokens = 64, kWarpRows = 32, kWarpsAcross = kTokens / kWarpTokens;
  static constexpr int kThreads = 2 * kRows;
  static constexpr int kBlocks = 3;
  static_assert(kThreads == kWarp * kWarpsAcross * kRows / kWarpRows);
  static constexpr int kScales = L::kHalfScales ? 2 : 1, kGroupFloats = kScales + L::kHasOffset;
  static constexpr int kPitch = kColumns + 16; // an odd number of 16 bytes avoids bank conflicts
  static_assert(2 * kGroupFloats * 4 <= 16);
  static constexpr int kInputBytes = kTokens * kByteRowBytes, kWeightBytes = kRows * kPitch;
  static constexpr int kSharedBytes = 2 * (kInputBytes + kWeightBytes);
};

// An offset absorbs the codes' bias; otherwise they are centred on 0.
template <typename L>
__device__ __forceinline__ void sign_codes(GroupCodes& group) {
  constexpr bool kSigned = signed_codes<L>();
  if constexpr (L::kHasOffset && !L::Bias::kLowers) {
    constexpr bool kHigh = !kSigned && middle_of_codes<L>() == 128;
    if constexpr (kHigh)
#pragma unroll
      for (uint32_t& word : group.word) word ^= 0x80808080;
    group.offset[0] += static_cast<float>((kHigh ? 128 : 0) - L::Bias::of(group, 0)) * group.scale[0];
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t bias = static_cast<uint32_t>(L::Bias::of(group, e)) * 0x01010101;
#pragma unroll
      for (int i = 2 * e; i < 2 * e + 2; ++i)
        group.word[i] = kSigned ? __vsub4(group.word[i], bias) : (group.word[i] + (0x80808080 - bias)) ^ 0x80808080;
    }
  }
}

// Lane l has tokens 16 m + l / 4 and + 8, rows 8 n + 2 (l % 4) and + 1.
template <typename Format>
class IntegerSums {
  using S = IntegerShape<Format>;
  using L = Layout<Format>;

 public:
  static constexpr int kM = S::kWarpTokens / 16, kN = S::kWarpRows / 8;
  float sum[kM][kN][4] = {};

  __device__ __forceinline__ IntegerSums(const uint8_t* x, const uint8_t* w, int lane)
      : x_(x + lane % 16 * kByteRowBytes + lane / 16 * 16), token_(x + lane / 4 * kByteRowBytes + S::kColumns),
        w_(w + (lane / 16 * 8 + lane % 8) * S::kPitch + lane / 8 % 2 * 16),
        row_(w + 2 * (lane % 4) * S::kPitch + S::kColumns) {}

  __device__ __forceinline__ void add(int half, int group) {
    const int in_x = half * S::kInputBytes, in_w = half * S::kWeightBytes;
    asm volatile("" ::: "memory"); // too few registers to load a group ahead
    uint32_t a[kM][4];
    float2 of_token[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      load_matrix_x4(a[m], x_ + in_x + 16 * m * kByteRowBytes + 32 * group);
#pragma unroll
      for (int h = 0; h < 2; ++h)
        of_token[m][h] = *reinterpret_cast<const float2*>(token_ + in_x + (16 * m + 8 * h) * kByteRowBytes + 8 * group);
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      load_matrix_x4(b, w_ + in_w + 8 * n * S::kPitch + 32 * group);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        float of_row[2][S::kGroupFloats];
#pragma unroll
        for (int row = 0; row < 2; ++row)
#pragma unroll
          for (int i = 0; i < S::kGroupFloats; ++i)
            of_row[row][i] = reinterpret_cast<const float*>(
                row_ + in_w + (8 * (n + tile) + row) * S::kPitch)[S::kGroupFloats * group + i];
#pragma unroll
        for (int m = 0; m < kM; ++m) add_tile(sum[m][n + tile], a[m], b + 2 * tile, of_token[m], of_row);
      }
    }
  }

 private:
  static __device__ __forceinline__ void add_tile(float (&sum)[4], const uint32_t (&a)[4], const uint32_t* b,
                                                  const float2 (&of_token)[2],
                                                  const float (&of_row)[2][S::kGroupFloats]) {
    constexpr float kFirst = 12582912.F;
    constexpr int kFirstBits = 0x4b400000;
    int dot[S::kScales][4];
    if constexpr (S::kScales == 2) {
      mma_16x8x16(dot[0], a[0], a[1], b[0], kFirstBits);
      mma_16x8x16(dot[1], a[2], a[3], b[1], kFirstBits);
    } else {
      mma_16x8x32(dot[0], a, b[0], b[1], kFirstBits);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&row)[S::kGroupFloats] = of_row[i % 2];
      const float2 token = of_token[i / 2];
#pragma unroll
      for (int s = 0; s < S::kScales; ++s) {
        float product = __fmaf_rn(row[s], __int_as_float(dot[s][i]), -kFirst * row[s]);
        if constexpr (L::kHasOffset) product = __fmaf_rn(row[S::kGroupFloats - 1], token.y, product);
        sum[i] = __fmaf_rn(product, token.x, sum[i]);
      }
    }
  }

  const uint8_t *x_, *token_, *w_, *row_;
};

template <typename Format>
class IntegerWeights {
  using S = IntegerShape<Format>;
  using L = Layout<Format>;
  using U = TileLayout<Format>;

 public:
  __device__ __forceinline__ IntegerWeights(const uint8_t* matrix, int row, const GemmArgs& args, uint8_t* to,
                                            unsigned group)
      : block_(matrix + U::block_offset(row, args.row_bytes)), to_(to), row_in_block_(row % U::kRowBlockRows),
        tail_bytes_(static_cast<int>(args.row_bytes - args.cols / U::kWeights * int64_t{U::kBytes})),
        tail_groups_(args.cols % U::kWeights / 32), full_groups_(args.cols / U::kWeights * kTileGroups), group_(group) {
  }

  __device__ __forceinline__ void fetch(int step) {
    const unsigned group = 2 * step + group_, in_tile = group % kTileGroups;
    const uint8_t* tile = block_ + group / kTileGroups * (U::kRowBlockRows * U::kBytes);
    real_ = group < full_groups_ + tail_groups_;
    if (group < full_groups_)
      L::fetch(raw_, tile + row_in_block_ * U::kBytes, kTileGroups, in_tile);
    else if (real_)
      L::fetch(raw_, tile + row_in_block_ * tail_bytes_, tail_groups_, in_tile);
  }
  __device__ __forceinline__ void store(int step) const {
    GroupCodes group{};
    if (real_) {
      L::unpack(group, raw_, (2 * step + group_) % kTileGroups);
      sign_codes<L>(group);
    }
    uint8_t* to = to_ + step % 2 * S::kWeightBytes;
    auto* codes = reinterpret_cast<uint4*>(to + 32 * group_);
    codes[0] = {group.word[0], group.word[1], group.word[2], group.word[3]};
    codes[1] = {group.word[4], group.word[5], group.word[6], group.word[7]};
    auto* factors = reinterpret_cast<float*>(to + S::kColumns) + S::kGroupFloats * group_;
#pragma unroll
    for (int s = 0; s < S::kScales; ++s) factors[s] = group.scale[s];
    if constexpr (L::kHasOffset) factors[S::kScales] = group.offset[0];
  }

 private:
  const uint8_t* block_;
  uint8_t* to_;
  int row_in_block_, tail_bytes_, tail_groups_;
  unsigned full_groups_, group_;
  typename L::Raw raw_;
  bool real_;
};

template <typename Format>
__global__ void __launch_bounds__(IntegerShape<Format>::kThreads, IntegerShape<Format>::kBlocks)
    integer_product_kernel(const __grid_constant__ IntegerProductArgs args) {
  using S = IntegerShape<Format>;
  using Sums = IntegerSums<Format>;
  extern __shared__ uint4 shared[];
  auto* const inputs = reinterpret_cast<uint8_t*>(shared);
  uint8_t* const weights = inputs + 2 * S::kInputBytes;
  int thread = threadIdx.x;
  asm volatile("" : "+r"(thread)); // otherwise re-read for each use
  const int lane = thread % kWarp, warp = thread / kWarp;
  const int warp_tokens = warp % S::kWarpsAcross * S::kWarpTokens, warp_rows = warp / S::kWarpsAcross * S::kWarpRows;
  let_successor_start();

  // Gated: each warp has 16 rows of gate, then the same of up.
  const int block_rows = args.gated ? S::kRows / 2 : S::kRows, last = args.gated ? 0 : args.product.segments - 1;
  const auto tiles = [&](int s) { return (args.product.segment[s].rows + block_rows - 1) / block_rows; };
  int index = 0, tile = blockIdx.y;
  for (; index < last && tile >= tiles(index); ++index) tile -= tiles(index);
  const GemmSegment& segment = args.product.segment[index];
  const int first_token = blockIdx.x * S::kTokens, first_row = tile * block_rows;

  const int my_row = thread / 2;
  const int row = first_row + (args.gated ? my_row / 32 * 16 + my_row % 16 : my_row);
  const GemmSegment& mine = args.product.segment[args.gated && my_row / 16 % 2 ? 1 : index];
  IntegerWeights<Format> next_weights(mine.weights, min(row, segment.rows - 1), args.product,
                                      weights + my_row * S::kPitch, thread % 2);
  const int64_t step_bytes = int64_t{gridDim.x} * S::kInputBytes;
  const auto* next_input =
      reinterpret_cast<const uint8_t*>(args.product.x) + int64_t{first_token} * kByteRowBytes + 16 * thread;
  const auto fetch_input = [&](int step) {
    uint8_t* to = inputs + step % 2 * S::kInputBytes + 16 * thread;
#pragma unroll
    for (int i = 0; i < S::kInputBytes; i += 16 * S::kThreads)
      if (S::kInputBytes % (16 * S::kThreads) == 0 || i + 16 * thread < S::kInputBytes)
        copy_async_16(to + i, next_input + i);
    copy_async_commit();
    next_input += step_bytes;
  };

  Sums sums(inputs + warp_tokens * kByteRowBytes, weights + warp_rows * S::kPitch, lane);
  const int steps = (args.product.cols + S::kColumns - 1) / S::kColumns;
  next_weights.fetch(0);
  wait_for_predecessor();
  fetch_input(0);
  next_weights.store(0);
  copy_async_wait<0>();
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      fetch_input(step + 1);
      next_weights.fetch(step + 1);
    }
    sums.add(step % 2, 0);
    sums.add(step % 2, 1);
    if (step + 1 < steps) next_weights.store(step + 1);
    copy_async_wait<0>();
    __syncthreads();
  }

  const auto write = [&](int token, int row, float value) {
    if (token >= args.product.tokens || row >= segment.rows) return;
    const int64_t at = int64_t{token} * segment.rows + row;
    if (args.product.residual) value += args.product.residual[at];
    segment.out[at] = value;
  };
  const auto bias = [&](const GemmSegment& of, int row) { return of.bias && row < of.rows ? of.bias[row] : 0; };
#pragma unroll
  for (int m = 0; m < Sums::kM; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = first_token + warp_tokens + 16 * m + i / 2 * 8 + lane / 4, column = 2 * (lane % 4) + i % 2;
      if (args.gated) {
#pragma unroll
        for (int n = 0; n < Sums::kN / 2; ++n) {
          const int row = first_row + warp_rows / 2 + 8 * n + column;
          write(token, row,
                args.glu(sums.sum[m][n][i] + bias(segment, row),
                         sums.sum[m][n + Sums::kN / 2][i] + bias(args.product.segment[1], row)));
        }
      } else {
#pragma unroll
        for (int n = 0; n < Sums::kN; ++n) {
          const int row = first_row + warp_rows + 8 * n + column;
          write(token, row, sums.sum[m][n][i] + bias(segment, row));
        }
      }
    }
}

} // namespace ridge::kernels::cuda
