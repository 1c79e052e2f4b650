// One-bit formats in the matvec kernel, by the tensor cores' binary products.
//
// Activations x ≈ s · q are 8-bit integers with a scale per 128, split into one-bit planes: q = Σ ± 2^n · (bit n),
// negative for plane 7. A binary product counts the common ones of eight rows of 128 weights and the eight planes, in
// place of eight dot products. A lane holds word lane % 4 (a group) of row lane / 4 of the weights and of plane lane /
// 4, and gets the counts of row lane / 4 with planes 2 (lane % 4) and the next.
#pragma once

#include "kernels/cuda/matvec/matvec_groups.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kBitBlock = 128;

// Per block of 128 four words of each plane; then the scales.
template <BitFormat Format>
inline constexpr int kGroupBytes<Format, false> = (4 * 32 + 4) / 4;

// Eight values per lane, a block per 16 lanes. Called like IntegerStore.
class BitStore {
 public:
  __device__ __forceinline__ BitStore(uint8_t* to, int groups, int first) : place_(first / 8 % 4) {
    const int group = first / 32;
    planes_ = to + 128 * (group / 4) + 4 * (group % 4) + place_;
    scale_ = reinterpret_cast<float*>(to + 32 * groups) + group / 4;
    first_ = first % kBitBlock == 0;
  }
  __device__ __forceinline__ void advance(int groups) {
    planes_ += 32 * groups;
    scale_ += groups / 4;
  }

  __device__ __forceinline__ void operator()(const float (&v)[8], bool is_valid) const {
    const float largest = largest_of<kBitBlock / 8>(v), inverse = 127 * reciprocal(largest);
    // Adding 1.5 · 2^23 leaves a float rounded in its low bits. Byte i of `four`: column i or 4 + i.
    uint32_t four[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t q[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) q[k] = __float_as_uint(__fmaf_rn(v[4 * i + k], inverse, 12582912.0f));
      four[i] = __byte_perm(__byte_perm(q[0], q[1], 0x0040), __byte_perm(q[2], q[3], 0x0040), 0x5410);
      // Lane n of four gets every lane's nth column.
      const uint32_t next = __shfl_xor_sync(~0u, four[i], 1);
      four[i] = __byte_perm(four[i], next, place_ & 1 ? 0x3715 : 0x6240);
      const uint32_t other = __shfl_xor_sync(~0u, four[i], 2);
      four[i] = __byte_perm(four[i], other, place_ & 2 ? 0x3276 : 0x5410);
    }
    // Columns place, place + 4, … place + 28, transposed to planes.
    uint32_t low = __byte_perm(four[0], four[1], 0x5140), high = __byte_perm(four[0], four[1], 0x7362);
    low = exchanged(exchanged(low, 7, 0x00aa00aa), 14, 0x0000cccc);
    high = exchanged(exchanged(high, 7, 0x00aa00aa), 14, 0x0000cccc);
    const uint32_t planes[2] = {(low & 0x0f0f0f0f) | (high << 4 & 0xf0f0f0f0),
                                (low >> 4 & 0x0f0f0f0f) | (high & 0xf0f0f0f0)};
    if (!is_valid) return;
#pragma unroll
    for (int n = 0; n < 8; ++n) planes_[16 * n] = static_cast<uint8_t>(planes[n / 4] >> (8 * (n % 4)));
    if (first_) *scale_ = largest * (1.0f / 127);
  }

 private:
  static __device__ __forceinline__ uint32_t exchanged(uint32_t word, int by, uint32_t mask) {
    const uint32_t differ = (word ^ word >> by) & mask;
    return word ^ differ ^ differ << by;
  }

  uint8_t* planes_;
  float* scale_;
  int place_;
  bool first_;
};

struct BitTile {
  static constexpr int kBlocks = kTileGroups * 32 / kBitBlock;
  uint32_t word[kBlocks];
  float scale[kBlocks], offset[kBlocks]; // of 2 · count of this lane's first plane; initial sum
  int blocks;

  BitTile() = default;
  __device__ __forceinline__ BitTile(const uint8_t* activations, int groups, int group, int tile_groups)
      : blocks(tile_groups / 4) {
    const int lane = threadIdx.x % kWarp;
    const float first_plane = static_cast<float>(2 << (2 * (lane % 4)));
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (b >= blocks) break;
      word[b] = reinterpret_cast<const uint32_t*>(activations)[8 * group + 32 * b + lane];
      scale[b] = first_plane * reinterpret_cast<const float*>(activations + 32 * groups)[group / 4 + b];
      // A weight is 2 · bit - 1.
      offset[b] = scale[b] * -0.5f * static_cast<float>(weighted(common_ones(~0u, word[b])));
    }
  }
  // Lane l returns its part of row l / 4; four lanes' parts add up.
  template <bool kWhole>
  __device__ __forceinline__ float dot(const uint8_t* rows, int row_bytes) const {
    const int lane = threadIdx.x % kWarp, count = kWhole ? kBlocks : blocks;
    const uint8_t* row = rows + lane / 4 * row_bytes;
    const uint8_t *codes = row + lane % 4 * 4 * count, *scales = row + 16 * count;
    uint32_t bits[kBlocks];
    uint32_t halves[kBlocks / 2];
    if constexpr (kWhole) {
      put(bits, *reinterpret_cast<const uint4*>(codes));
      put(bits + 4, *reinterpret_cast<const uint4*>(codes + 16));
      put(halves, *reinterpret_cast<const uint4*>(scales));
    }
    float sum = 0;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!kWhole && b >= count) break;
      if (!kWhole) bits[b] = word_at(codes + 4 * b);
      const float d = kWhole ? half_of(halves[b / 2] >> (16 * (b % 2))) : half_of(short_at(scales + 2 * b));
      sum += d * (scale[b] * static_cast<float>(weighted(common_ones(bits[b], word[b]))) + offset[b]);
    }
    return sum;
  }

 private:
  static __device__ __forceinline__ int weighted(int2 counts) {
    return counts.x + counts.y * (threadIdx.x % 4 == 3 ? -2 : 2);
  }
};

} // namespace ridge::kernels::cuda
