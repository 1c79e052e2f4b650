// A warp's steps of 16 cached keys and values in shared memory, as codes.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/mma_codes.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

template <class Codes_, int kDim_, int kRows>
struct CodedRows {
  using Codes = Codes_;
  static constexpr int kDim = kDim_, kBlocks = kDim / 32, kRowBytes = kDim * Codes::kBits / 8;
  static constexpr int kPitch = kRowBytes + 16; // the eight rows of one ldmatrix hit different banks
  __align__(16) uint8_t codes[kRows][kPitch];
  __align__(16) uint8_t high_bits[Codes::kHighBits ? kRows : 1][kDim / 8];
  __align__(16) uint16_t scales[kRows][kBlocks];
  __align__(16) uint16_t minima[Codes::kMinima ? kRows : 1][kBlocks];
};

template <class KeyCodes, class ValueCodes, int kDim, int kRows = kKeysPerWarp>
struct CodedStep {
  CodedRows<KeyCodes, kDim, kRows> keys;
  CodedRows<ValueCodes, kDim, kRows> values;
};

// 4, 8 or 16 bytes, through L1.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zeros(void* shared, const void* global, bool copies) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(kBytes),
               "r"(copies ? kBytes : 0)
               : "memory");
#else
  for (int i = 0; i < kBytes / 4; ++i)
    static_cast<uint32_t*>(shared)[i] = copies ? static_cast<const uint32_t*>(global)[i] : 0;
#endif
}

// A lane's share of copies of keys or values of a head.
template <class Codes, int kDim>
class RowCopies {
  using To = CodedRows<Codes, kDim, kKeysPerWarp>;
  static constexpr int kPieces = To::kRowBytes / 16, kBlocks = To::kBlocks;
  static constexpr int kCopies = kKeysPerWarp * kPieces / kWarp, kRowsApart = kWarp / kPieces; // of a lane's copies
  static constexpr int kBitBytes = std::min(kDim / 8, 16), kBitParts = kDim / 8 / kBitBytes;

 public:
  __device__ __forceinline__ RowCopies(const CachedSide& from, int64_t head_at) {
    const int lane = threadIdx.x % kWarp;
    codes_ = static_cast<const uint8_t*>(from.data) + head_at * To::kRowBytes + lane % kPieces * 16;
    const uint16_t* halves = lane < kKeysPerWarp ? from.blocks.scales : from.blocks.minima;
    halves_ = halves ? halves + head_at * kBlocks : nullptr;
    if constexpr (Codes::kHighBits)
      high_bits_ = from.blocks.high_bits + head_at * (kDim / 8) + lane % kBitParts * kBitBytes;
  }
  // Row `row_of(key)` for each key; scales and minima from `count` on are zero.
  template <class RowOf>
  __device__ __forceinline__ void start(To& to, const RowOf& row_of, int count) const {
    const int lane = threadIdx.x % kWarp, key = lane % kKeysPerWarp;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int of_lane = lane / kPieces + i * kRowsApart;
      copy_async_16(&to.codes[of_lane][lane % kPieces * 16], codes_ + row_of(of_lane) * To::kRowBytes);
    }
    if (halves_)
      copy_async_or_zeros<2 * kBlocks>(lane < kKeysPerWarp ? to.scales[key] : to.minima[Codes::kMinima ? key : 0],
                                       halves_ + row_of(key) * kBlocks, key < count);
    if constexpr (Codes::kHighBits)
      if (const int of_lane = lane / kBitParts; of_lane < kKeysPerWarp)
        copy_async_or_zeros<kBitBytes>(&to.high_bits[of_lane][lane % kBitParts * kBitBytes],
                                       high_bits_ + row_of(of_lane) * (kDim / 8), true);
  }

 private:
  const uint8_t* codes_;
  const uint16_t* halves_; // half of the lanes copy scales, the others minima
  const uint8_t* high_bits_ = nullptr;
};

// Sixteen bytes of each row and the next, for rows 0-7 and 8-15: tiles of ldmatrix, by chunk and half of the rows.
template <int kChunks, bool kTransposed, class RowsInStep>
__device__ __forceinline__ void load_chunks(uint32_t (&words)[kChunks][2], const RowsInStep& from) {
  const int lane = threadIdx.x % kWarp;
  const auto address =
      static_cast<uint32_t>(__cvta_generic_to_shared(&from.codes[lane % 8 + lane / 8 % 2 * 8][lane / 16 * 16]));
#pragma unroll
  for (int c = 0; c < kChunks; c += 2) {
    uint32_t r[4];
    if constexpr (kTransposed)
      load_matrix_transposed_x4(r, address + c * 16);
    else
      load_matrix_x4(r, address + c * 16);
    words[c][0] = r[0], words[c][1] = r[1], words[c + 1][0] = r[2], words[c + 1][1] = r[3];
  }
}

// `kCount` words, by loads as wide as possible.
template <int kCount>
struct alignas(std::min(4 * kCount, 16)) Words {
  uint32_t of[kCount];
  __device__ __forceinline__ static Words at(const void* from) { return *static_cast<const Words*>(from); }
};

// Queries as the other operand of the keys' slots, with sums of blocks of 32 for offsets. In shared memory by lane;
// zero where rows are missing.
template <class Codes, int kDim>
struct QueryOperands {
  static constexpr int kBlocks = kDim / 32, kSumLanes = kBlocks / 2;
  uint4 slots[kBlocks][kWarp];
  uint32_t sums[2][kWarp]; // of blocks 2 t and 2 t + 1 in lanes 4 g + t: rounded, and what rounding lost

  __device__ __forceinline__ void clear() {
    auto* words = reinterpret_cast<uint32_t*>(this);
    for (int i = threadIdx.x; i < static_cast<int>(sizeof(*this) / 4); i += kAttentionThreads) words[i] = 0;
  }
  // Block `b` of row `g`, by a warp with an element in each lane.
  __device__ __forceinline__ void put(int g, int b, float element) {
    const SlotPlace at = Codes::place(threadIdx.x % kWarp);
    const auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
    const __half half = __float2half_rn(element * power(-Codes::shift(at.slot)));
    reinterpret_cast<__half*>(&slots[b][4 * g + at.t])[2 * at.slot + at.half] = half;
    const float sum = warp_sum(__half2float(half) * power(Codes::shift(at.slot)));
    if (threadIdx.x % kWarp != 0) return;
    const __half rounded = __float2half_rn(sum);
    reinterpret_cast<__half*>(&sums[0][4 * g + b / 2])[b % 2] = rounded;
    reinterpret_cast<__half*>(&sums[1][4 * g + b / 2])[b % 2] = __float2half_rn(sum - __half2float(rounded));
  }
};
template <class Codes, int kDim>
struct QueryOperand {
  static constexpr int kBlocks = kDim / 32;
  uint32_t slots[kBlocks][4], sums[2];
  __device__ __forceinline__ explicit QueryOperand(const QueryOperands<Codes, kDim>& of) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const uint4 four = of.slots[b][lane];
      slots[b][0] = four.x, slots[b][1] = four.y, slots[b][2] = four.z, slots[b][3] = four.w;
    }
    sums[0] = of.sums[0][lane], sums[1] = of.sums[1][lane];
  }
};

// Scores of keys g and g + 8 for queries 2 t and 2 t + 1, times 2^-24. `zero`: the factor of offsets, times 2^-24.
template <class Codes, int kDim>
__device__ __forceinline__ void score_codes(float (&score)[4], const CodedRows<Codes, kDim, kKeysPerWarp>& keys,
                                            const QueryOperand<Codes, kDim>& query, bool has_minima, float zero) {
  constexpr int kBlocks = kDim / 32, kWords = Codes::kWords;
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  uint32_t words[kBlocks * kWords][2];
  load_chunks<kBlocks * kWords, false>(words, keys);
  const auto scales = Words<kBlocks / 2>::at(keys.scales[g]), scales_8 = Words<kBlocks / 2>::at(keys.scales[g + 8]);
  Words<kBlocks> high, high_8;
  if constexpr (Codes::kHighBits) {
    high = Words<kBlocks>::at(keys.high_bits[g]);
    high_8 = Words<kBlocks>::at(keys.high_bits[g + 8]);
  }
  float offset[4] = {};
  {
    const uint16_t(*planes)[kBlocks] = Codes::kMinima && has_minima ? keys.minima : keys.scales;
    const int pair = t % QueryOperands<Codes, kDim>::kSumLanes;
    const uint32_t low = reinterpret_cast<const uint32_t*>(planes[g])[pair],
                   rest = reinterpret_cast<const uint32_t*>(planes[g + 8])[pair];
    mma_16x8x16(offset, {low, rest, low, rest}, query.sums[0], query.sums[1]);
  }
#pragma unroll
  for (float& s : score) s = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    uint32_t slots[2][4], of_block[2][kWords];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) of_block[half][w] = words[b * kWords + w][half];
      uint32_t high_bits = 0; // byte t, for the low halves' elements from bit 4 on, for the others from bit 20 on
      if constexpr (Codes::kHighBits) {
        const uint32_t byte = __byte_perm((half ? high_8 : high).of[b], 0, 0x4440 | t);
        high_bits = byte * 0x10010;
      }
      Codes::unpack(slots[half], of_block[half], high_bits);
    }
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      mma_16x8x16(sum, {slots[0][i], slots[1][i], slots[0][i + 1], slots[1][i + 1]}, query.slots[b][i],
                  query.slots[b][i + 1]);
    const auto scale_of = [&](const Words<kBlocks / 2>& of) {
      const __half2 pair = *reinterpret_cast<const __half2*>(&of.of[b / 2]);
      return b % 2 ? __high2float(pair) : __low2float(pair);
    };
    const float scale = scale_of(scales), scale_8 = scale_of(scales_8);
    score[0] += scale * sum[0], score[1] += scale * sum[1];
    score[2] += scale_8 * sum[2], score[3] += scale_8 * sum[3];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) score[i] += offset[i] * zero;
}

// Sums of values for queries 2 t and 2 t + 1, times 2^-24, and of their offsets (rows of blocks).
template <class Codes, int kDim>
struct CodedOutputs {
  static constexpr int kBlocks = kDim / 32, kWords = Codes::kWords;
  float out[kBlocks][2][4], offset[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& block : out)
#pragma unroll
      for (auto& tile : block)
#pragma unroll
        for (float& o : tile) o = 0;
#pragma unroll
    for (float& o : offset) o = 0;
  }
  __device__ __forceinline__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (auto& block : out)
#pragma unroll
      for (auto& tile : block)
#pragma unroll
        for (int i = 0; i < 4; ++i) tile[i] *= factor[i % 2];
#pragma unroll
    for (int i = 0; i < 4; ++i) offset[i] *= factor[i % 2];
  }
  // `weights`: of keys 2 t and 2 t + 1, and of those 8 further on, for query g.
  __device__ __forceinline__ void add(const CodedRows<Codes, kDim, kKeysPerWarp>& values, const uint32_t (&weights)[2],
                                      bool has_minima) {
    const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    uint32_t words[kBlocks * kWords][2];
    load_chunks<kBlocks * kWords, true>(words, values);
    // Those of keys 2 t and 2 t + 1.
    const Words<kBlocks> scales[2] = {Words<kBlocks>::at(values.scales[2 * t]),
                                      Words<kBlocks>::at(values.scales[2 * t + 8])};
    Words<kBlocks> high[2][2];
    if constexpr (Codes::kHighBits)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) high[half][i] = Words<kBlocks>::at(values.high_bits[2 * t + 8 * half + i]);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      uint32_t slots[2][4], scaled[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t of_block[kWords], high_bits = 0;
#pragma unroll
        for (int w = 0; w < kWords; ++w) of_block[w] = words[b * kWords + w][half];
        if constexpr (Codes::kHighBits) { // byte g / 2 of both keys; odd units have its upper bits
          const uint32_t bytes = __byte_perm(high[half][0].of[b], high[half][1].of[b], (0x0400 | g / 2 * 0x0101));
          high_bits = bytes << (g % 2 ? 0 : 4);
        }
        Codes::unpack(slots[half], of_block, high_bits);
        const uint32_t pair =
            __byte_perm(scales[half].of[b / 2], scales[half].of[kBlocks / 2 + b / 2], b % 2 ? 0x7632 : 0x5410);
        const __half2 product =
            __hmul2(*reinterpret_cast<const __half2*>(&weights[half]), *reinterpret_cast<const __half2*>(&pair));
        scaled[half] = *reinterpret_cast<const uint32_t*>(&product);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        mma_16x8x16(out[b][i], {slots[0][2 * i], slots[0][2 * i + 1], slots[1][2 * i], slots[1][2 * i + 1]}, scaled[0],
                    scaled[1]);
    }
    // Zeros or minima: row g adds up those of block g.
    const uint16_t(*planes)[kBlocks] = Codes::kMinima && has_minima ? values.minima : values.scales;
    const auto pair_of = [&](int key) {
      return planes[key][g % kBlocks] | uint32_t{planes[key + 1][g % kBlocks]} << 16;
    };
    mma_16x8x16(offset, {pair_of(2 * t), 0, pair_of(2 * t + 8), 0}, weights[0], weights[1]);
  }
};

} // namespace ridge::kernels::cuda
