// A GPU's rates, from which candidates.h computes costs.
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <span>
#include <string_view>

namespace ridge::kernels::cuda {

// Per microsecond.
struct ChipRates {
  double bytes = 0;          // of device memory
  double half_products = 0;  // f16 by mma, f32 sums
  double byte_products = 0;  // int8 by mma
  double wgmma_products = 0; // f16 by wgmma; 0: none
  double lanes = 0;          // multiprocessors x 128 x clock
};

// `compute`: 89 for 8.9.
ChipRates rates_of(int compute, int sm_count, double clock_mhz, double bytes_per_us);

// Plans need no device.
struct KnownChip {
  std::string_view name;
  int compute, sm_count;
  double clock_mhz, bytes_per_us; // of the data sheet
  bool measured;                  // costs were compared (`ridge bench --regret`)

  ChipRates rates() const { return rates_of(compute, sm_count, clock_mhz, bytes_per_us); }
};
std::span<const KnownChip> known_chips();
const KnownChip& known_chip(std::string_view name); // throws std::logic_error for unknown names

// Limits of code built for all `known_chips`.
DeviceLimits limits_of(int compute, int sm_count);

} // namespace ridge::kernels::cuda
