#include "kernels/cuda/plan/chip.h"

#include <algorithm>
#include <stdexcept>

namespace ridge::kernels::cuda {
namespace {

// Multiply-adds per multiprocessor and clock, from the vendor's papers; mma on 90 as measured on an H200 (648 TFLOP/s
// f16, 1,290 TOPS), since they list only wgmma.
struct TensorCores {
  int compute;
  double half, bytes, wgmma;
};
constexpr TensorCores kTensorCores[] = {{75, 512, 1024, 0}, {80, 1024, 2048, 0},    {86, 256, 1024, 0},
                                        {89, 256, 1024, 0}, {90, 1240, 2470, 2048}, {100, 1240, 2470, 0},
                                        {120, 256, 1024, 0}};

// Measured share of the data sheet's bandwidth.
constexpr double kReadShare = 0.88;

constexpr KnownChip kKnownChips[] = {
    {"T4", 75, 40, 1590, 320e3, false},           {"RTX 3060", 86, 28, 1777, 360e3, false},
    {"RTX 3090", 86, 82, 1695, 936e3, false},     {"RTX 4060", 89, 24, 2460, 272e3, false},
    {"RTX 4070", 89, 46, 2475, 504e3, false},     {"RTX 4090", 89, 128, 2520, 1008e3, false},
    {"RTX 5060 Ti", 120, 36, 2572, 448e3, false}, {"RTX 5090", 120, 170, 2407, 1792e3, false},
    {"A100", 80, 108, 1410, 2039e3, false},       {"H100", 90, 132, 1980, 3352e3, false},
    {"H200", 90, 132, 1980, 4800e3, true},
};

} // namespace

ChipRates rates_of(int compute, int sm_count, double clock_mhz, double bytes_per_us) {
  const TensorCores* cores = kTensorCores;
  for (const TensorCores& known : kTensorCores)
    if (known.compute <= compute) cores = &known;
  const double clocks = sm_count * clock_mhz;
  return {.bytes = kReadShare * bytes_per_us,
          .half_products = cores->half * clocks,
          .byte_products = cores->bytes * clocks,
          .wgmma_products = cores->wgmma * clocks,
          .lanes = 128 * clocks};
}

std::span<const KnownChip> known_chips() { return kKnownChips; }

const KnownChip& known_chip(std::string_view name) {
  const auto* found = std::ranges::find(kKnownChips, name, &KnownChip::name);
  if (found == std::end(kKnownChips)) throw std::logic_error("unknown chip name");
  return *found;
}

DeviceLimits limits_of(int compute, int sm_count) {
  const int major = compute / 10;
  const int shared_kib = major < 8 ? 64 : compute == 80 ? 163 : major == 8 || major == 12 ? 99 : 227;
  DeviceLimits limits;
  limits.sm_count = sm_count;
  limits.shared_per_block = shared_kib << 10;
  limits.small_batch = major >= 8;
  limits.integer_products = (major == 8 && compute > 80) || major == 12;
  limits.overlap = limits.bulk_copies = major >= 9;
  limits.prompt_products = compute == 90;
  return limits;
}

} // namespace ridge::kernels::cuda
