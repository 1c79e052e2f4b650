// Packets, in which small values go to other ranks: by an exchange's kernel, or by the product whose results are
// summed.
#pragma once

#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int kMaxRanks = 8;

// A value, with the exchange's number in the upper half. Written at once, it is its own flag.
using Packet = uint64_t;

// `first`: of a step's exchanges. Numbers rise from step to step, equally on all ranks.
struct ExchangeNumbers {
  uint32_t first, next;
};

// Where a rank's packets of one exchange go.
struct PacketTargets {
  int count = 0;                  // of other ranks; 0: no packets
  Packet* to[kMaxRanks - 1] = {}; // this rank's place in the first of two alternating halves
  int64_t half = 0;               // packets between the halves
  const ExchangeNumbers* numbers = nullptr;
  uint32_t place = 0; // of the exchange in its step

#ifdef __CUDACC__
  __device__ __forceinline__ uint32_t number() const {
    return *const_cast<const volatile uint32_t*>(&numbers->first) + place;
  }
  __device__ __forceinline__ void send(float value, int64_t index, uint32_t number) const {
    const Packet packet = uint64_t{number} << 32 | __float_as_uint(value);
    for (int i = 0; i < count; ++i)
      asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(to[i] + number % 2 * half + index), "l"(packet)
                   : "memory");
  }
#endif
};

} // namespace ridge::kernels::cuda
