// out = x Wᵀ for prompts by int8 mma, for GeForce cards, where it is four times as fast as f16 with f32 sums.
// Activations are 8-bit in groups of 32 (HalfLayout::bytes), weights' codes are bytes, and scales are f32.
//
// The f32 units are nearly as busy as the tensor cores. Two things save instructions there:
// - Integer sums start with the bits of 1.5 · 2^23, so they are the float 1.5 · 2^23 + sum without a conversion. An fma
//   with the row's scale removes the constant, and one with the token's scale adds to the result.
// - Offsets times sums of activations are a product of their own, in f16, with a column per group.
#pragma once

#include "kernels/cuda/gemm/integer_product.h"
#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/epilogue.cuh"
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
  static constexpr int kThreads = 2 * kRows; // a thread decodes one group of weights a step
  static constexpr int kBlocks = 2;          // per multiprocessor: a thread keeps two groups' fragments, 255 registers
  static_assert(kThreads == kWarp * kWarpsAcross * kRows / kWarpRows);
  static constexpr int kScales = L::kHalfScales ? 2 : 1; // of a group
  // A row of weights: 64 codes, then scales (IntegerWeights::store); an odd number of 16 bytes, so that no banks
  // collide.
  static constexpr int kPitch = kColumns + 16;
  static constexpr int kInputBytes = kTokens * kByteRowBytes, kStageBytes = kInputBytes + kRows * kPitch, kStages = 3;
  // Offsets of the latest 16 steps, [step][row][group of the step], as halves. A product takes eight steps of them.
  static constexpr int kOffsetSteps = 16, kProductSteps = 8;
  static constexpr int kSharedBytes = kStages * kStageBytes + (L::kHasOffset ? kOffsetSteps * kRows * 4 : 0);
  static_assert(kBlocks * (kSharedBytes + 1024) <= 100 << 10, "what a multiprocessor of a GeForce card has");
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

template <int kFloats>
__device__ __forceinline__ void load_floats(float (&to)[kFloats], uint32_t shared) {
  if constexpr (kFloats == 2)
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(shared));
  else
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(shared));
}

// The operands of one group for a warp's 64 tokens x 32 rows.
template <typename Format>
struct IntegerFragments {
  using S = IntegerShape<Format>;
  static constexpr int kM = S::kWarpTokens / 16, kN = S::kWarpRows / 8;
  uint32_t a[kM][4], b[kN][2];
  float token[kM / 2][4];        // scales of tokens 8 i + lane / 4, i = 0 … 7
  float row[kN][2 * S::kScales]; // of rows 8 n + 2 (lane % 4) and + 1
};

// The sums of a warp's 64 tokens x 32 rows: lane l has tokens 16 m + l / 4 and + 8, rows 8 n + 2 (l % 4) and + 1.
template <typename Format>
class IntegerSums {
  using S = IntegerShape<Format>;
  using L = Layout<Format>;
  using Fragments = IntegerFragments<Format>;

 public:
  static constexpr int kM = Fragments::kM, kN = Fragments::kN;
  float sum[kM][kN][4] = {};

  // `x`, `w`: the warp's first token and row in the first stage.
  __device__ __forceinline__ IntegerSums(const uint8_t* x, const uint8_t* w, int lane)
      : x_(address(x + lane % 16 * kByteRowBytes + lane / 16 * 16)),
        token_(address(x + lane / 4 * kByteRowBytes + S::kColumns)),
        w_(address(w + (lane / 16 * 8 + lane % 8) * S::kPitch + lane / 8 % 2 * 16)),
        row_(address(w + 2 * (lane % 4) * S::kPitch + S::kColumns)) {}

  // Loads group kGroup, 0 or 1, of the step in the stage that starts `stage` bytes behind the first.
  template <int kGroup>
  __device__ __forceinline__ void load(Fragments& f, uint32_t stage) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrix_x4(f.a[m], x_ + stage + 16 * m * kByteRowBytes + 32 * kGroup);
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      load_matrix_x4(b, w_ + stage + 8 * n * S::kPitch + 32 * kGroup);
      f.b[n][0] = b[0], f.b[n][1] = b[1], f.b[n + 1][0] = b[2], f.b[n + 1][1] = b[3];
    }
#pragma unroll
    for (int i = 0; i < kM / 2; ++i) load_floats(f.token[i], token_ + stage + 8 * (2 * kGroup + i) * kByteRowBytes);
#pragma unroll
    for (int n = 0; n < kN; ++n)
      load_floats(f.row[n],
                  row_ + stage + (S::kScales == 2 ? (8 * n + kGroup) * S::kPitch : 8 * n * S::kPitch + 8 * kGroup));
  }

  __device__ __forceinline__ void add(const Fragments& f) {
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        constexpr float kFirst = 12582912.F;
        constexpr int kFirstBits = 0x4b400000;
        int dot[S::kScales][4];
        if constexpr (S::kScales == 2) {
          mma_16x8x16(dot[0], f.a[m][0], f.a[m][1], f.b[n][0], kFirstBits);
          mma_16x8x16(dot[1], f.a[m][2], f.a[m][3], f.b[n][1], kFirstBits);
        } else {
          mma_16x8x32(dot[0], f.a[m], f.b[n][0], f.b[n][1], kFirstBits);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* row = f.row[n] + i % 2 * S::kScales;
          float product = -kFirst * (S::kScales == 2 ? row[0] + row[S::kScales - 1] : row[0]);
#pragma unroll
          for (int s = 0; s < S::kScales; ++s) product = __fmaf_rn(row[s], __int_as_float(dot[s][i]), product);
          sum[m][n][i] = __fmaf_rn(product, f.token[m / 2][m % 2 * 2 + i / 2], sum[m][n][i]);
        }
      }
  }

  // Sums of activations of eight steps: lane l has tokens 8 i + l / 4 in step l % 4, then in that + 4.
  struct TokenSums {
    uint32_t of_step[2][2 * kM];
  };
  // `tokens`: the warp's tokens in memory in the first of these steps, each step `step_bytes` behind the one before.
  // Missing steps are zero.
  static __device__ __forceinline__ void load(TokenSums& to, const uint8_t* tokens, int64_t step_bytes, int steps,
                                              int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int step = lane % 4 + 4 * half;
      const uint8_t* at = tokens + step * step_bytes + (lane / 4 + kByteSumRow) * kByteRowBytes + S::kColumns;
#pragma unroll
      for (int i = 0; i < kM / 2; ++i) {
        const uint4 sums = step < steps ? *reinterpret_cast<const uint4*>(at + 8 * i * kByteRowBytes) : uint4{};
        uint32_t* word = to.of_step[half] + 4 * i;
        word[0] = sums.x, word[1] = sums.y, word[2] = sums.z, word[3] = sums.w;
      }
    }
  }
  // Adds offsets times these sums. `offsets`: of the first step and the warp's first row.
  __device__ __forceinline__ void add_offsets(const TokenSums& of_token, const uint32_t* offsets, int steps, int lane) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      uint32_t of_row[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int step = lane % 4 + 4 * half;
        of_row[half] = step < steps ? offsets[step * S::kRows + 8 * n + lane / 4] : 0;
      }
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const uint32_t a[4] = {of_token.of_step[0][2 * m], of_token.of_step[0][2 * m + 1], of_token.of_step[1][2 * m],
                               of_token.of_step[1][2 * m + 1]};
        mma_16x8x16(sum[m][n], a, of_row[0], of_row[1]);
      }
    }
  }

 private:
  static __device__ __forceinline__ uint32_t address(const void* shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  }

  uint32_t x_, token_, w_, row_;
};

// A thread's group of each step, on its way to shared memory. Weights are multiplied by two to the kWeightExponent.
template <typename Format>
class IntegerWeights {
  using S = IntegerShape<Format>;
  using L = Layout<Format>;
  using U = TileLayout<Format>;

 public:
  // `to`: the block's first row in the first stage; `row_in_tile`: of the block's rows; `group`: of a step, 0 or 1.
  __device__ __forceinline__ IntegerWeights(const uint8_t* matrix, int row, const GemmArgs& args, uint8_t* to,
                                            uint8_t* offsets, int row_in_tile, int group)
      : matrix_(matrix), tile_(U::block_offset(row, args.row_bytes) + row % U::kRowBlockRows * U::kBytes),
        codes_(to + row_in_tile * S::kPitch + 32 * group),
        scales_(reinterpret_cast<float*>(
                    to + (row_in_tile - row_in_tile % 2 + (S::kScales == 2 ? group : 0)) * S::kPitch + S::kColumns) +
                (S::kScales == 2 ? row_in_tile % 2 * 2 : 2 * group + row_in_tile % 2)),
        offset_(reinterpret_cast<__half*>(offsets) + 2 * row_in_tile + group), left_((args.cols + 31) / 32 - group),
        group_(group), full_tiles_(args.cols / U::kWeights), tail_groups_(args.cols % U::kWeights / 32),
        tail_shift_(row % U::kRowBlockRows * static_cast<int>(U::kBytes - tail_bytes(args))) {
    if (full_tiles_ == 0) tile_ -= tail_shift_;
  }

  // Loads the next step's group.
  __device__ __forceinline__ void fetch() {
    if (group_ >= kTileGroups) {
      group_ -= kTileGroups;
      tile_ += U::kRowBlockRows * U::kBytes;
      if (--full_tiles_ == 0) tile_ -= tail_shift_; // rows of the last tile are shorter
    }
    asm volatile("" : "+l"(tile_)); // or the fields' addresses are added up from five parts each
    real_ = left_ > 0;
    left_ -= 2;
    fetched_ = group_;
    group_ += 2;
    if (full_tiles_ > 0)
      L::fetch(raw_, matrix_ + tile_, kTileGroups, fetched_);
    else if (real_)
      L::fetch(raw_, matrix_ + tile_, tail_groups_, fetched_);
  }
  // Stores it in the stage that starts `stage` bytes behind the first; `step`: its number.
  __device__ __forceinline__ void store(int stage, int step) const {
    constexpr float kFactor = 1 << kWeightExponent;
    GroupCodes group{};
    if (real_) {
      L::unpack(group, raw_, fetched_);
      sign_codes<L>(group);
    }
    auto* codes = reinterpret_cast<uint4*>(codes_ + stage);
    codes[0] = {group.word[0], group.word[1], group.word[2], group.word[3]};
    codes[1] = {group.word[4], group.word[5], group.word[6], group.word[7]};
#pragma unroll
    for (int s = 0; s < S::kScales; ++s) scales_[stage / 4 + s] = group.scale[s] * kFactor;
    if constexpr (L::kHasOffset)
      offset_[step % S::kOffsetSteps * 2 * S::kRows] = __float2half_rn(group.offset[0] * kFactor);
  }

 private:
  static __device__ __forceinline__ int64_t tail_bytes(const GemmArgs& args) { // of a row in the last tile
    return args.row_bytes - args.cols / U::kWeights * int64_t{U::kBytes};
  }

  const uint8_t* matrix_;
  int64_t tile_; // the row's bytes in the next tile
  uint8_t* codes_;
  float* scales_;
  __half* offset_;
  int left_, group_, full_tiles_, tail_groups_, tail_shift_, fetched_;
  typename L::Raw raw_;
  bool real_;
};

template <typename Format>
__global__ void __launch_bounds__(IntegerShape<Format>::kThreads, IntegerShape<Format>::kBlocks)
    integer_product_kernel(const __grid_constant__ IntegerProductArgs args) {
  using S = IntegerShape<Format>;
  using Sums = IntegerSums<Format>;
  extern __shared__ uint4 shared[];
  auto* const inputs = reinterpret_cast<uint8_t*>(shared); // of a stage: kTokens rows of kByteRowBytes
  uint8_t* const weights = inputs + S::kInputBytes;        // then kRows rows of kPitch bytes
  uint8_t* const offsets = inputs + S::kStages * S::kStageBytes;
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
  IntegerWeights<Format> next_weights(mine.weights, min(row, segment.rows - 1), args.product, weights, offsets, my_row,
                                      thread % 2);
  const int64_t step_bytes = int64_t{gridDim.x} * S::kInputBytes;
  const uint8_t* const tokens = reinterpret_cast<const uint8_t*>(args.product.x) + int64_t{first_token} * kByteRowBytes;
  const uint8_t* next_input = tokens + 16 * thread;
  const auto fetch_input = [&](int stage) {
    uint8_t* to = inputs + stage + 16 * thread;
#pragma unroll
    for (int i = 0; i < S::kInputBytes; i += 16 * S::kThreads)
      if (S::kInputBytes % (16 * S::kThreads) == 0 || i + 16 * thread < S::kInputBytes)
        copy_async_16(to + i, next_input + i);
    copy_async_commit();
    next_input += step_bytes;
  };

  // Stages hold the step at work, the next one, whose first group is loaded before this one ends, and the one after.
  const int steps = (args.product.cols + S::kColumns - 1) / S::kColumns;
  Sums sums(inputs + warp_tokens * kByteRowBytes, weights + warp_rows * S::kPitch, lane);
  int stage = 0, next = S::kStageBytes, after = 2 * S::kStageBytes;
  next_weights.fetch();
  wait_for_predecessor();
  fetch_input(stage);
  next_weights.store(stage, 0);
  next_weights.fetch();
  if (steps > 1) fetch_input(next);
  next_weights.store(next, 1);
  next_weights.fetch();
  copy_async_wait<0>();
  __syncthreads();
  IntegerFragments<Format> first, second;
  sums.template load<0>(first, stage);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step + 2 < steps) {
      fetch_input(after);
      next_weights.store(after, step + 2);
      next_weights.fetch();
    }
    // The offsets of eight steps are added behind the last of them.
    const int done = step % S::kProductSteps + 1, begin = step + 1 - done;
    const bool adds_offsets = Layout<Format>::kHasOffset && (done == S::kProductSteps || step + 1 == steps);
    typename Sums::TokenSums token_sums;
    if (adds_offsets)
      Sums::load(token_sums, tokens + warp_tokens * kByteRowBytes + begin * step_bytes, step_bytes, done, lane);
    sums.template load<1>(second, stage);
    sums.add(first);
    if (adds_offsets)
      sums.add_offsets(token_sums,
                       reinterpret_cast<const uint32_t*>(offsets) + begin % S::kOffsetSteps * S::kRows + warp_rows,
                       done, lane);
    sums.template load<0>(first, next);
    sums.add(second);
    copy_async_wait<0>();
    __syncthreads();
    const int free = stage;
    stage = next, next = after, after = free;
  }

#pragma unroll
  for (int m = 0; m < Sums::kM; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = first_token + warp_tokens + 16 * m + i / 2 * 8 + lane / 4, column = 2 * (lane % 4) + i % 2;
      if (token >= args.product.tokens) continue;
      const float scale = exp2f(static_cast<float>(args.product.exponent[token] - kWeightExponent));
      if (args.gated) {
#pragma unroll
        for (int n = 0; n < Sums::kN / 2; ++n)
          RowEpilogue(args.product, segment, true, first_row + warp_rows / 2 + 8 * n + column)
              .write(token, sums.sum[m][n][i] * scale, sums.sum[m][n + Sums::kN / 2][i] * scale, args.glu);
      } else {
#pragma unroll
        for (int n = 0; n < Sums::kN; ++n)
          RowEpilogue(args.product, segment, false, first_row + warp_rows + 8 * n + column)
              .write(token, sums.sum[m][n][i] * scale);
      }
    }
}

} // namespace ridge::kernels::cuda
