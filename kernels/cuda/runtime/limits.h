// Chip and build properties that select kernels; no CUDA headers, so plans need no GPU.
#pragma once

namespace ridge::kernels::cuda {

inline constexpr int kMaxSegments = 4; // matrices of one format and input per product

struct ChipLimits {
  int sm_count = 1;
  int shared_per_block = 48 << 10; // bytes
};

struct DeviceLimits : ChipLimits {
  bool overlap = false;          // programmatic dependent launch (sm_90)
  bool small_batch = false;      // mbarriers (sm_80)
  bool bulk_copies = false;      // sm_90
  bool integer_products = false; // GeForce: int8 is four times as fast as f16 with f32 sums
  bool prompt_products = false;  // wgmma (sm_90a)
};

// An H100's, for plans without a GPU.
inline constexpr DeviceLimits kPresumedLimits = {{132, 227 << 10}, true, true, true, false, true};

} // namespace ridge::kernels::cuda
