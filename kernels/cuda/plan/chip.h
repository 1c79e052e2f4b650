// How fast a GPU is at what products are made of. Candidates' costs (candidates.h) are computed from these numbers.
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <span>
#include <string_view>

namespace ridge::kernels::cuda {

// Rates of the whole chip, per microsecond.
struct ChipRates {
  double bytes = 0;          // read from device memory
  double half_products = 0;  // multiply-adds of f16 by mma with f32 sums
  double byte_products = 0;  // multiply-adds of int8 by mma
  double wgmma_products = 0; // multiply-adds of f16 by wgmma; 0: the chip has none
  double lanes = 0;          // instructions of single lanes: multiprocessors x 128 x clock
};

// `compute`: the capability, 89 for 8.9. `bytes_per_us`: of the memory, as the data sheet has it.
ChipRates rates_of(int compute, int sm_count, double clock_mhz, double bytes_per_us);

// A GPU that plans are made for where it is not at hand.
struct KnownChip {
  std::string_view name;
  int compute, sm_count;
  double clock_mhz, bytes_per_us; // boost clock and memory bandwidth of the data sheet
  bool measured;                  // costs were compared with times on this chip (`ridge bench --regret`)

  ChipRates rates() const { return rates_of(compute, sm_count, clock_mhz, bytes_per_us); }
};
std::span<const KnownChip> known_chips();
const KnownChip& known_chip(std::string_view name); // throws std::logic_error for another name

// What code that was built for every chip of `known_chips` can do on a chip of this capability.
DeviceLimits limits_of(int compute, int sm_count);

} // namespace ridge::kernels::cuda
