// Lookup tables of the codebook formats, and of TQ1_0's ternary digits, five at a time.
//
// A group holds four indices of eight weights each (IQ3: eight of four), signs and a scale. Instructions and shared
// memory bound it: 32 random words take 3.5 cycles. Hence:
//
//   - The table is replicated; copy c lies in banks that only lanes of remainder c read. With 32 copies no lanes
//     collide, with 16 two do, with 8 about three.
//   - A table word is a point of eight weights as nibbles, the selector of a permute of registers with positive and
//     negative levels: one instruction makes four signed codes. (IQ3's table holds codes, IQ1's two digits per nibble.)
//
// Without a `Lut`, `unpack` reads one copy in device memory, for kernels that decode a weight for many tokens.
#pragma once

#include "kernels/cuda/layout/layout_base.cuh"
#include "kernels/cuda/runtime/ptx.cuh"
#include "quant/formats/codebooks.h"

#include <bit>
#include <type_traits>

namespace ridge::kernels::cuda {

template <int kSize>
struct Words {
  alignas(16) uint32_t word[(kSize + 3) / 4 * 4];
};

template <int kSize, int kLevels>
constexpr Words<kSize> level_numbers(const quant::Codebook<uint64_t, kSize>& lut, const int (&levels)[kLevels]) {
  Words<kSize> result{};
  for (int i = 0; i < kSize; ++i)
    for (int weight = 0; weight < 8; ++weight)
      for (int level = 0; level < kLevels; ++level)
        if ((lut.point[i] >> (8 * weight) & 0xff) == (levels[level] & 0xff))
          result.word[i] |= static_cast<uint32_t>(level) << (4 * weight);
  return result;
}

// Eight ternary digits in 16 bits: nibble i holds digits i (a) and i + 4 (b) as a selector 3a + b among nine bytes,
// with 0 and 8 exchanged: selector 8 gives the sign of byte 0, which is 0.
constexpr uint32_t pair_selector(int a, int b) {
  const int number = 3 * a + b;
  return static_cast<uint32_t>(number % 8 == 0 ? 8 - number : number);
}
template <int kSize>
constexpr Words<kSize / 2> digit_pairs(const quant::Codebook<uint64_t, kSize>& lut, const int (&levels)[3]) {
  Words<kSize / 2> result{};
  const auto digit = [&](uint64_t point, int weight) {
    for (int i = 0; i < 2; ++i)
      if ((point >> (8 * weight) & 0xff) == (levels[i] & 0xff)) return i;
    return 2;
  };
  for (int i = 0; i < kSize; ++i)
    for (int pair = 0; pair < 4; ++pair)
      result.word[i / 2] |= pair_selector(digit(lut.point[i], pair), digit(lut.point[i], pair + 4))
                            << (16 * (i % 2) + 4 * pair);
  return result;
}
// Eight times the digits of selectors 4 · kHalf to 4 · kHalf + 3.
constexpr uint32_t eight_digits(bool second, int half) {
  uint32_t bytes = 0;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      if (const uint32_t selector = pair_selector(a, b); static_cast<int>(selector / 4) == half)
        bytes |= static_cast<uint32_t>(8 * (second ? b : a)) << (8 * (selector % 4));
  return bytes;
}

template <int kSize>
constexpr Words<kSize> halves_of_odd(const quant::Codebook<uint32_t, kSize>& lut) {
  Words<kSize> result{};
  for (int i = 0; i < kSize; ++i) result.word[i] = lut.point[i] >> 1 & 0x7f7f7f7f;
  return result;
}

// Lowest first: four in nibbles, the last as a code.
constexpr Words<243> ternary_digits() {
  Words<243> result{};
  for (int i = 0; i < 243; ++i)
    for (int weight = 0, n = i; weight < 5; ++weight, n /= 3)
      result.word[i] |= weight < 4 ? static_cast<uint32_t>(n % 3) << (4 * weight) : (n - 1 & 255u) << 16;
  return result;
}

constexpr uint32_t bytes_of(int a, int b, int c) {
  return static_cast<uint32_t>((a & 255) | (b & 255) << 8 | (c & 255) << 16);
}
inline constexpr uint32_t kIq2Positive = bytes_of(8, 25, 43), kIq2Negative = bytes_of(-8, -25, -43);

// An index has kBits bits at bit kAt: masked, it is the offset of its copies.
template <int kEntries_, int kCopies_, uint32_t kConstant_ = 0, uint32_t kSecond_ = 0>
struct Table {
  static constexpr uint32_t kConstant = kConstant_, kSecond = kSecond_;
  static constexpr int kEntries = kEntries_, kCopies = kCopies_;
  static constexpr int kBits = std::bit_width(static_cast<unsigned>(kEntries - 1));
  static constexpr int kAt = 2 + std::countr_zero(static_cast<unsigned>(kCopies));
  static constexpr uint32_t kMask = ((1u << kBits) - 1) << kAt;
};
// Inside a function it takes device memory only where used.
struct Iq1Table : Table<1024, 16, eight_digits(false, 0), eight_digits(true, 0)> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = digit_pairs(quant::kIq1Codebook, quant::kIq1Levels);
    return table.word;
  }
};
struct Iq2XxsTable : Table<256, 32, kIq2Positive> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = level_numbers(quant::kIq2XxsCodebook, quant::kIq2Levels);
    return table.word;
  }
};
struct Iq2XsTable : Table<512, 16, kIq2Positive> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = level_numbers(quant::kIq2XsCodebook, quant::kIq2Levels);
    return table.word;
  }
};
struct Iq2STable : Table<1024, 16, kIq2Positive> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = level_numbers(quant::kIq2SCodebook, quant::kIq2Levels);
    return table.word;
  }
};
struct Iq3XxsTable : Table<256, 32, 0x32103210> {
  static __device__ __forceinline__ const uint32_t* words() { return quant::kIq3XxsCodebook.point; }
};
struct Iq3STable : Table<512, 32> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = halves_of_odd(quant::kIq3SCodebook);
    return table.word;
  }
};
struct TernaryTable : Table<243, 32, bytes_of(-1, 0, 1)> {
  static __device__ __forceinline__ const uint32_t* words() {
    static constexpr auto table = ternary_digits();
    return table.word;
  }
};

template <typename T>
class SharedLut {
 public:
  static constexpr int kBytes = (T::kEntries * T::kCopies * 4 + 15) / 16 * 16;

  const uint32_t constant, second;

  __device__ __forceinline__ explicit SharedLut(const uint8_t*)
      : constant(constant_in_register(T::kConstant)), second(T::kSecond ? constant_in_register(T::kSecond) : 0),
        copy_(constant_in_register(threadIdx.x % T::kCopies * 4)) {}
  __device__ __forceinline__ uint32_t operator()(uint32_t bits) const { return word_of((bits & T::kMask) | copy_); }
  // One dot product extracts, scales and adds the copy's offset.
  __device__ __forceinline__ uint32_t of_byte(uint32_t indices, int k) const {
    static_assert(T::kCopies == 32 && T::kEntries <= 256);
    return word_of(__dp4a(indices, 128u << (8 * k), copy_));
  }
  // Bit 1 selects the half. Bits come in place, or as masked halves with a factor each.
  __device__ __forceinline__ uint32_t half_word(uint32_t bits) const {
    return short_of((bits & (T::kMask | 2)) | copy_);
  }
  __device__ __forceinline__ uint32_t half_word(uint32_t masked, uint32_t low_times, uint32_t high_times) const {
    return short_of(__dp2a_lo(masked, low_times | high_times << 8, copy_));
  }

  template <int kThreads>
  class Filler {
   public:
    __device__ __forceinline__ explicit Filler(int thread) : thread_(thread) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int i = thread + k * kThreads;
        if (i >= kPieces) break;
        if constexpr (T::kCopies == 1)
          held_[k] = reinterpret_cast<const uint4*>(T::words())[i];
        else
          held_[k] = T::words()[4 * i / T::kCopies];
      }
    }
    __device__ __forceinline__ void store(uint8_t* to) const {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int i = thread_ + k * kThreads;
        if (i >= kPieces) break;
        if constexpr (T::kCopies == 1)
          reinterpret_cast<uint4*>(to)[i] = held_[k];
        else
          reinterpret_cast<uint4*>(to)[i] = {held_[k], held_[k], held_[k], held_[k]};
      }
    }

   private:
    static_assert(T::kCopies == 1 || T::kCopies >= 4);
    static constexpr int kPieces = kBytes / 16, kEach = (kPieces + kThreads - 1) / kThreads;
    std::conditional_t<T::kCopies == 1, uint4, uint32_t> held_[kEach];
    int thread_;
  };

 private:
  // The table must be first in shared memory. Taking its address at each use keeps it in a uniform register, which a
  // load adds for free; a pointer costs an addition.
  static __device__ __forceinline__ uint32_t word_of(uint32_t offset) {
    extern __shared__ uint4 shared[];
    const auto table = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(table + offset));
    return word;
  }
  static __device__ __forceinline__ uint32_t short_of(uint32_t offset) {
    extern __shared__ uint4 shared[];
    const auto table = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    uint32_t bits;
    asm volatile("{ .reg .u16 bits; ld.shared.u16 bits, [%1]; cvt.u32.u16 %0, bits; }"
                 : "=r"(bits)
                 : "r"(table + offset));
    return bits;
  }

  uint32_t copy_;
};

template <typename T>
struct GlobalLut {
  static constexpr uint32_t constant = T::kConstant, second = T::kSecond;
  __device__ __forceinline__ uint32_t operator()(uint32_t bits) const {
    return T::words()[(bits & T::kMask) >> T::kAt];
  }
  __device__ __forceinline__ uint32_t of_byte(uint32_t indices, int k) const {
    return T::words()[indices >> (8 * k) & 255];
  }
  __device__ __forceinline__ uint32_t half_word(uint32_t bits) const {
    return (*this)(bits) >> (8 * (bits & 2)) & 0xffff;
  }
  __device__ __forceinline__ uint32_t half_word(uint32_t masked, uint32_t low_times, uint32_t high_times) const {
    return half_word((masked & 0xffff) * low_times + (masked >> 16) * high_times);
  }
};

__device__ __forceinline__ uint32_t sign_bytes(uint32_t bits) { return permute(bits, 0, 0xba98); }

// The upper word, shifted so that bit `from` comes to bit `to`.
__device__ __forceinline__ uint32_t aligned(uint32_t low, uint32_t high, int from, int to) {
  return __funnelshift_r(low, high, from - to);
}
// Moves bit `from` to bit `to`; `moved` shifts in zeros.
__device__ __forceinline__ uint32_t rotated(uint32_t word, int from, int to) {
  return __funnelshift_r(word, word, (from - to) & 31);
}
__device__ __forceinline__ uint32_t moved(uint32_t word, int from, int to) {
  return from > to ? word >> (from - to) : word << (to - from);
}

__device__ __forceinline__ uint32_t select_bits(uint32_t mask, uint32_t a, uint32_t b) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(result) : "r"(mask), "r"(a), "r"(b));
  return result;
}

// Bit 4i + j is the sign of weight 8j + i.
__device__ inline uint32_t signs_by_nibble(const uint8_t (&signs)[4]) {
  uint32_t bits = 0;
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 8; ++i) bits |= (signs[j] >> i & 1u) << (4 * i + j);
  return bits;
}
// If each eight signs have even parity, the eighth is redundant and frees four bits. Nibble i holds the xor of nibbles
// 0 to i; decoding takes one shift and one three-input operation.
__device__ inline uint32_t even_signs_with(uint32_t signs, uint32_t four_bits) {
  for (int shift = 4; shift < 32; shift *= 2) signs ^= signs << shift;
  return (signs & 0x0fffffff) | four_bits << 28;
}
__device__ __forceinline__ uint32_t even_signs(uint32_t bits) { return (bits & 0x0fffffff) ^ bits << 4; }

__device__ __forceinline__ uint32_t sign_selectors(uint32_t signs, int j) { return moved(signs, j, 2) & 0x44444444; }

__device__ __forceinline__ void select_codes(uint32_t* word, uint32_t low, uint32_t high, uint32_t selectors) {
  word[0] = permute(low, high, selectors);
  word[1] = permute_upper(low, high, selectors);
}

__device__ __forceinline__ void load2(uint32_t* to, const uint8_t* from) {
  const auto pair = *reinterpret_cast<const uint2*>(from);
  to[0] = pair.x, to[1] = pair.y;
}
__device__ __forceinline__ void store2(uint8_t* to, uint32_t first, uint32_t second) {
  *reinterpret_cast<uint2*>(to) = {first, second};
}
__device__ __forceinline__ void store1(uint8_t* to, uint32_t word) { *reinterpret_cast<uint32_t*>(to) = word; }
__device__ __forceinline__ void store_short(uint8_t* to, uint32_t bits) {
  *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(bits);
}

} // namespace ridge::kernels::cuda
