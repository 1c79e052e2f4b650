// Rotation of heads in KV caches whose types have 4 or 5 bits (core/kv_type.h).
//
// A Hadamard matrix multiplies each 32 elements before they are stored, so that one far above the rest does not take
// the codes of its block. Queries are rotated likewise, which keeps dot products. The rotation is its own inverse: it
// also restores sums of values. Wider rotations would spread the error of one block over others that need to be exact
// (docs/models.md).
#pragma once

#include "core/host_device.h"
#include "core/kv_type.h"

namespace ridge::core {

RIDGE_HD bool is_rotated(KvType type) { return type >= KvType::q5_1; }
inline constexpr float kRotationScale = 0.17677669529663687f; // 1 / sqrt(32): makes it orthonormal

// `dim`: a multiple of 32. Devices take the same steps across lanes.
inline void rotate_blocks(float* x, int64_t dim) {
  for (float* block = x; block < x + dim; block += kKvBlock) {
    for (int64_t step = 1; step < kKvBlock; step *= 2)
      for (int64_t first = 0; first < kKvBlock; first += 2 * step)
        for (int64_t i = first; i < first + step; ++i) {
          const float a = block[i], b = block[i + step];
          block[i] = a + b;
          block[i + step] = a - b;
        }
    for (int64_t i = 0; i < kKvBlock; ++i) block[i] *= kRotationScale;
  }
}

} // namespace ridge::core
