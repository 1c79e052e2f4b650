// What of a chip and of the build decides which kernels run. This is host data without CUDA headers: plans of batches
// are made, and tested, without a GPU.
#pragma once

namespace ridge::kernels::cuda {

inline constexpr int kMostSegments = 4; // matrices of one format with the same input that a product takes

struct ChipLimits {
  int sm_count = 1;                // multiprocessors
  int shared_per_block = 48 << 10; // bytes of shared memory that a block may ask for
};

struct DeviceLimits : ChipLimits {
  bool overlap = false;          // a kernel may start while its predecessor runs (sm_90 on sm_90)
  bool small_batch = false;      // copies arrive at barriers: the product for small batches runs (sm_80)
  bool bulk_copies = false;      // the product of experts of few tokens runs (sm_90)
  bool integer_products = false; // GeForce cards multiply bytes four times as fast as f16 with f32 sums
  bool prompt_products = false;  // wgmma: the product and the attention for prompts run (sm_90a)
};

// An H100's limits, for plans where there is no GPU.
inline constexpr DeviceLimits kPresumedLimits = {{132, 227 << 10}, true, true, true, false, true};

} // namespace ridge::kernels::cuda
