// Epilogue of a prompt product's tile: bias, activation or gate, residual; f32 rows, f16 tiles, or terms of a sum.
#pragma once

#include "kernels/cuda/exchange/packed.cuh"
#include "kernels/cuda/exchange/sum_mail.h"
#include "kernels/cuda/gemm/prompt_product.h"
#include "kernels/cuda/runtime/hopper.cuh"

namespace ridge::kernels::cuda {

struct ProductSegment {
  int rows;
  int first; // column of the value
  float* out;
  int64_t out_stride;
  const float *bias, *up_bias;
  const float* residual;
};

struct ProductArgs {
  const uint8_t *x, *w;
  const int8_t* exponent;
  int log2_largest; // log2 of a bound of x
  int tokens, token_rows;
  int w_rows, w_pitch; // w_pitch: between column tiles
  int tile_rows;       // each segment is padded to whole tiles
  int steps;
  int more_steps; // the last of these, with columns of adapters
  const uint8_t* more_x;
  bool gated; // even rows of w are gates, odd ones up
  bool activated;
  FusedGlu glu;
  TiledHalf half; // or null: f32 rows
  const ProductBound* bounds[2];
  int segments;
  ProductSegment segment[kMaxSegments];
  SumMail mail; // instead of `out`
};

#ifdef RIDGE_HAS_WGMMA

inline constexpr int kSliceColumns = 64, kSliceSums = 32; // of a lane

// The segment of a column of w; `column` becomes the segment's.
__device__ __forceinline__ const ProductSegment& segment_at(const ProductArgs& args, int& column) {
  const auto padded = [&](int rows) { return ((args.gated ? 2 * rows : rows) + args.tile_rows - 1) & -args.tile_rows; };
  int s = 0;
  while (column >= padded(args.segment[s].rows)) column -= padded(args.segment[s++].rows);
  return args.segment[s];
}

// `kThreads` threads fetch a tile's residuals into L2 before it is multiplied.
template <int kN, int kThreads>
__device__ __forceinline__ void prefetch_residual(const ProductArgs& args, int column, int first_token, int thread) {
  constexpr int kLine = 32, kLines = kN / kLine;
  const ProductSegment& segment = segment_at(args, column);
  if (!segment.residual) return;
#pragma unroll
  for (int i = thread; i < kPromptTokens * kLines; i += kThreads) {
    const int token = first_token + i / kLines, of = column + i % kLines * kLine;
    if (token < args.tokens && of < segment.rows) prefetch_l2(segment.residual + token * segment.out_stride + of);
  }
}

// A lane's part of 64 x 64 results of wgmma: two tokens, eight apart, two of each eight columns. The code must be
// short: fetching what runs once per tile takes longer than the product.
class LaneResults {
 public:
  __device__ LaneResults(const ProductArgs& args, const float (&sum)[kSliceSums], int column, int first_token, int lane)
      : args_(args), sum_(sum), group_(lane / 4), pair_(lane % 4), segment_(&segment_at(args, column)) {
    column_ = args.gated ? column / 2 : column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      token_[half] = first_token + group_ + 8 * half;
      there_[half] = token_[half] < args.tokens;
      const int exponent = there_[half] ? args.exponent[token_[half]] : 0;
      scale_[half] = exp2f(static_cast<float>(exponent - kWeightExponent));
      shrink_[half] = 1;
      if (!args.half.tiles) continue;
      const int of_result = result_exponent(exponent);
      shrink_[half] = exp2f(static_cast<float>(-of_result));
      if (segment_->first + column_ == 0 && pair_ == 0 && there_[half])
        args.half.exponents[token_[half]] = static_cast<int8_t>(of_result);
    }
  }

  // To the ranks that add up, in whole units. `half`: of the mail.
  __device__ void send(int64_t half) const {
    constexpr int kUnits = kSliceColumns / kUnitColumns;
    const int lane = 4 * group_ + pair_, rows = segment_->rows;
#pragma unroll
    for (int of = 0; of < 2; ++of) {
      if (!there_[of]) continue;
      uint4* to = args_.mail.group(half, token_[of] / kGroupTokens) +
                  (segment_->first + column_) / kUnitColumns * kUnitEights + lane;
      float2 v[kEights] = {};
      add(v, segment_->bias);
      if (segment_->residual) add(v, segment_->residual + token_[of] * segment_->out_stride);
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        const int at = 4 * j + 2 * of;
        v[j] = {sum_[at] * scale_[of] + v[j].x, sum_[at + 1] * scale_[of] + v[j].y};
      }
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        if (column_ + unit * kUnitColumns >= rows) continue;
        const float2* of_unit = v + unit * 4;
        to[unit * kUnitEights] = pack({{of_unit[0].x, of_unit[0].y, of_unit[1].x, of_unit[1].y},
                                       {of_unit[2].x, of_unit[2].y, of_unit[3].x, of_unit[3].y}});
      }
    }
  }
  __device__ void write() const {
    if (args_.gated) return args_.half.tiles ? write_gated<true>() : write_gated<false>();
    const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 8 == 0; };
    const bool eights = segment_->rows % 8 == 0 && segment_->out_stride % 2 == 0 && aligned(segment_->out) &&
                        aligned(segment_->bias) && aligned(segment_->residual);
    if (!eights) return write_singly();
    if (!args_.activated)
      return args_.half.tiles ? write_eights<true, Unit::none>() : write_eights<false, Unit::none>();
    if (args_.glu.is_gelu)
      return args_.half.tiles ? write_eights<true, Unit::gelu>() : write_eights<false, Unit::gelu>();
    args_.half.tiles ? write_eights<true, Unit::any>() : write_eights<false, Unit::any>();
  }

 private:
  enum class Unit { none, gelu, any };
  static constexpr int kEights = kSliceColumns / 8;

  // Adds a row's values at the lane's columns.
  __device__ void add(float2 (&v)[kEights], const float* row) const {
    if (!row) return;
    const int column = column_ + 2 * pair_;
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      const float2 more = *reinterpret_cast<const float2*>(row + min(column + 8 * j, segment_->rows - 2));
      v[j] = {v[j].x + more.x, v[j].y + more.y};
    }
  }

  // The exponent with which all possible results fit f16.
  __device__ int result_exponent(int exponent) const {
    const float largest = exp2f(static_cast<float>(exponent + args_.log2_largest));
    const auto bound = [&](const ProductBound& of) { return of.row_sum * largest + of.bias; };
    float most = bound(*args_.bounds[0]);
    if (args_.gated) most *= bound(*args_.bounds[1]) + fabsf(args_.glu.shift);
    return most > 0 ? min(max(ilogbf(most) - 14, -120), 120) : 0;
  }
  // fused_glu()'s, with constants that halve the code.
  __device__ static float gelu(float v) {
    const FusedGlu glu = {.linear = kGeluLinear, .cubic = kGeluCubic, .is_gelu = true};
    return glu(v, 1);
  }
  __device__ uint16_t* tiled(int column, int half) const {
    return args_.half.tiles + (int64_t{column / 64} * args_.token_rows + token_[half]) * 64 +
           (column / 8 % 8 ^ group_) * 8 + column % 8;
  }
  __device__ float* row_of(int half) const { return segment_->out + token_[half] * segment_->out_stride; }

  // f16 is zero-padded to 64 columns. Addends are read before anything is written.
  template <bool kHalf, Unit kUnit>
  __device__ void write_eights() const {
    const int column = column_ + 2 * pair_, rows = segment_->rows, end = kHalf ? (rows + 63) / 64 * 64 : rows;
    float2 bias[kEights] = {}, residual[2][kEights] = {};
    add(bias, segment_->bias);
    if (kUnit == Unit::none && !kHalf && segment_->residual)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (there_[half]) add(residual[half], segment_->residual + token_[half] * segment_->out_stride);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!there_[half]) continue;
      float2 v[kEights];
#pragma unroll
      for (int j = 0; j < kEights; ++j) { // unconditional: dependency chains overlap
        const int at = 4 * j + 2 * half;
        const float2 sum = {sum_[at] * scale_[half] + bias[j].x, sum_[at + 1] * scale_[half] + bias[j].y};
        if constexpr (kUnit == Unit::none) v[j] = {sum.x + residual[half][j].x, sum.y + residual[half][j].y};
        if constexpr (kUnit == Unit::gelu) v[j] = {gelu(sum.x), gelu(sum.y)};
        if constexpr (kUnit == Unit::any) v[j] = {args_.glu(sum.x, 1), args_.glu(sum.y, 1)};
      }
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        const int of = column_ + 8 * j;
        if (of >= end) break;
        if constexpr (kHalf) {
          *reinterpret_cast<uint32_t*>(tiled(segment_->first + of, half) + 2 * pair_) =
              of < rows ? pack_half2(v[j].x * shrink_[half], v[j].y * shrink_[half]) : 0;
        } else {
          *reinterpret_cast<float2*>(row_of(half) + column + 8 * j) = v[j];
        }
      }
    }
  }

  // By column, with run-time indices, hence from local memory.
  __device__ void write_singly() const {
    float sums[kSliceSums];
#pragma unroll
    for (int i = 0; i < kSliceSums; ++i) sums[i] = sum_[i];
    const int end = args_.half.tiles ? (segment_->rows + 63) / 64 * 64 : segment_->rows;
#pragma unroll 1
    for (int i = 0; i < kSliceSums; ++i) {
      const int half = i / 2 % 2, row = column_ + i / 4 * 8 + 2 * pair_ + i % 2;
      if (row >= end || !(half ? there_[1] : there_[0])) continue;
      const float scale = half ? scale_[1] : scale_[0], shrink = half ? shrink_[1] : shrink_[0];
      float v = 0;
      if (row < segment_->rows) {
        v = sums[i] * scale + (segment_->bias ? segment_->bias[row] : 0);
        if (args_.activated) v = args_.glu(v, 1);
        if (segment_->residual) v += segment_->residual[(half ? token_[1] : token_[0]) * segment_->out_stride + row];
      }
      if (args_.half.tiles)
        *reinterpret_cast<__half*>(half ? tiled(segment_->first + row, 1) : tiled(segment_->first + row, 0)) =
            __float2half_rn(v * shrink);
      else
        (half ? row_of(1) : row_of(0))[row] = v;
    }
  }

  // A lane has a gate and an up of each eight columns; neighbours exchange results so that each has two adjacent
  // columns.
  template <bool kHalf>
  __device__ void write_gated() const {
    const bool odd = pair_ % 2;
    const int rows = segment_->rows, beside = odd ? 3 + pair_ : pair_;
    const bool pairs = segment_->out_stride % 2 == 0 && reinterpret_cast<uintptr_t>(segment_->out) % 8 == 0;
    const bool whole = column_ + kSliceColumns / 2 <= rows;
    const float *bias = segment_->bias, *up_bias = segment_->up_bias;
#pragma unroll
    for (int j = 0; j < kEights; j += 2) {
      const int first = column_ + 4 * j;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float made[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = first + 4 * i + pair_, at = 4 * (j + i) + 2 * half;
          float gate = sum_[at] * scale_[half], up = sum_[at + 1] * scale_[half];
          if (bias) gate += row < rows ? bias[row] : 0;
          if (up_bias) up += row < rows ? up_bias[row] : 0;
          made[i] = args_.glu(gate, up);
        }
        const float other = __shfl_xor_sync(~0u, odd ? made[0] : made[1], 1);
        float2 v = odd ? float2{other, made[1]} : float2{made[0], other};
        const int row = first + beside;
        if (!there_[half] || (!whole && row >= (kHalf ? (rows + 63) / 64 * 64 : rows))) continue;
        if (kHalf) {
          if (!whole) v = {row < rows ? v.x : 0, row + 1 < rows ? v.y : 0};
          *reinterpret_cast<uint32_t*>(tiled(segment_->first + first, half) + beside) =
              pack_half2(v.x * shrink_[half], v.y * shrink_[half]);
        } else if (pairs && row + 1 < rows) {
          *reinterpret_cast<float2*>(row_of(half) + row) = v;
        } else {
          row_of(half)[row] = v.x;
          if (row + 1 < rows) row_of(half)[row + 1] = v.y;
        }
      }
    }
  }

  const ProductArgs& args_;
  const float (&sum_)[kSliceSums];
  const int group_, pair_;
  const ProductSegment* segment_;
  int column_;
  int token_[2];
  bool there_[2];
  float scale_[2], shrink_[2];
};

#endif

} // namespace ridge::kernels::cuda
