// Sums of long prompts' values: the ranks share out the tokens, and products send their results to the rank that adds
// them up.
#pragma once

#include "kernels/cuda/exchange/packets.h"
#include "kernels/cuda/products/cuts.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// Packed eights (packed.cuh) go by groups of 8 tokens, these by units of 32 columns. A unit is a warp's part of a wgmma
// tile: lane 4 t + p has token t, columns 2 p and 2 p + 1 of each eight.
inline constexpr int kGroupTokens = 8, kUnitColumns = 32, kUnitEights = 32;

// Products of so many rows are prompt products on several GPUs (plan/candidates.cpp).
constexpr bool summed_by_tokens(int64_t rows, int64_t width) {
  return rows > kMaxDividedTokens && width % kUnitColumns == 0 && width >= 512;
}
constexpr int64_t token_groups(int64_t rows) { return (rows + kGroupTokens - 1) / kGroupTokens; }

// Where a rank sends its terms of one sum.
struct SumMail {
  int ranks = 0;               // 0: nowhere
  uint8_t* to[kMaxRanks] = {}; // by adding rank: this rank's place in the first of two alternating halves
  int64_t half_bytes = 0;      // between the halves
  int64_t group_bytes = 0;
  const ExchangeNumbers* numbers = nullptr;
  uint32_t place = 0; // of the exchange in its step

#ifdef __CUDACC__
  // The offset of this exchange's half.
  __device__ __forceinline__ int64_t half() const {
    return (*const_cast<const volatile uint32_t*>(&numbers->first) + place) % 2 * half_bytes;
  }
  // A group of the half, at the rank that adds it up.
  __device__ __forceinline__ uint4* group(int64_t half, int number) const {
    return reinterpret_cast<uint4*>(to[number % ranks] + half + number * group_bytes);
  }
#endif
};

} // namespace ridge::kernels::cuda
