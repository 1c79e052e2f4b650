// How the matvec kernel fetches its weights.
//
// A chunk is a row block's warp tiles of the same columns, contiguous, 1 to 4 KB (layout.cuh). Each warp copies its
// share asynchronously into a ring in shared memory, several chunks ahead: bytes in flight depend neither on registers
// nor on arithmetic, and copies start before activations exist.
#pragma once

#include "kernels/cuda/matvec/matvec.h"
#include "kernels/cuda/matvec/matvec_groups.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {

// kEarly slots are fetched before the activations.
template <typename Format>
struct Chunks {
  static constexpr int kRows = TileLayout<Format>::kRowBlockRows, kTileBytes = TileLayout<Format>::kBytes;
  static constexpr int kBytes = chunk_bytes(kTileBytes), kSlots = chunk_slots(kTileBytes);
  static constexpr int kEarly = std::clamp(2400 / kBytes, 1, kSlots - 1);
  static constexpr int kCopies = (kBytes / 16 + kWarp - 1) / kWarp;

  static void distribute_row_blocks(MatvecArgs& args, int blocks) {
    int row_blocks = 0;
    for (int s = 0; s < args.segments; ++s) {
      args.segment[s].row_blocks = (args.segment[s].rows + kRows - 1) / kRows;
      if (s == 0 || !args.gated) row_blocks += args.segment[s].row_blocks;
    }
    args.row_blocks_per_block = row_blocks / blocks;
    args.blocks_with_one_more = row_blocks % blocks;
  }
};

// a / b for 0 <= a < 2^21, without a division's twenty instructions: the error is below half of 1 / b.
__device__ __forceinline__ int quotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}

// kWhole: rows are whole warp tiles, so the compiler knows where a lane's group lies.
template <typename Format, int kTokens_, bool kExact_, bool kWhole_>
struct MatvecShape {
  using L = Layout<Format>;
  using U = TileLayout<Format>;
  using C = Chunks<Format>;
  static constexpr int kTokens = kTokens_;
  static constexpr bool kExact = kExact_, kWhole = kWhole_, kFloat = kFloatDots<Format, kExact>,
                        kBits = !kExact && BitFormat<Format>;

  int threads, warps, lane, warp;
  int slot, row;           // of experts: the token's slot, and the token
  int first_token, tokens; // of experts: not counting shared ones
  int groups, tiles;
  int tail_groups, tail_bytes;

  __device__ __forceinline__ explicit MatvecShape(const MatvecArgs& args) {
    threads = blockDim.x, warps = threads / kWarp;
    lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    slot = blockIdx.y, row = blockIdx.z;
    first_token = slot * kTokens + row * args.chosen_slots(), tokens = min(kTokens, args.tokens - first_token);
    const auto cols = static_cast<unsigned>(args.cols);
    groups = static_cast<int>((cols + L::kGroupWeights - 1) / L::kGroupWeights);
    tiles = static_cast<int>((cols + U::kWeights - 1) / U::kWeights);
    tail_groups = kWhole ? kTileGroups : groups - (tiles - 1) * kTileGroups;
    tail_bytes = kWhole ? C::kTileBytes : U::rounded(L::tile_payload(tail_groups));
  }
  __device__ __forceinline__ int tile_bytes(int tile) const {
    return kWhole || tile < tiles - 1 ? C::kTileBytes : tail_bytes;
  }
  __device__ __forceinline__ int tile_groups(int tile) const {
    return !kWhole && tile == tiles - 1 ? tail_groups : kTileGroups;
  }
};

// A block's row blocks: results, or if gated the gate's, then up's. Neighbours, so that the next kernel's warps wait
// for few blocks.
template <typename Format>
struct BlockRows {
  static constexpr int kRows = Chunks<Format>::kRows;

  const MatvecArgs& args;
  int first, results, count;

  __device__ __forceinline__ BlockRows(const MatvecArgs& args, int block) : args(args) {
    first = args.row_blocks_per_block * block + min(block, args.blocks_with_one_more);
    results = args.row_blocks_per_block + (block < args.blocks_with_one_more);
    count = args.gated ? 2 * results : results;
  }
  __device__ __forceinline__ const MatvecSegment& locate(int row_block, int& in_segment) const {
    in_segment = first + row_block;
    int s = 0;
    while (in_segment >= args.segment[s].row_blocks) in_segment -= args.segment[s++].row_blocks;
    return args.segment[s];
  }
  __device__ __forceinline__ const uint8_t* first_chunk(int i, bool is_shared) const {
    const bool up = i >= results;
    int in_segment;
    const MatvecSegment& segment = locate(up ? i - results : i, in_segment);
    const uint8_t* weights = up ? args.segment[1].weights : segment.weights;
    return (is_shared ? args.shared.weights[up] : weights) +
           int64_t{in_segment} * (Chunks<Format>::kRows * args.row_bytes);
  }
  __device__ __forceinline__ void store_addresses(const uint8_t** chunks, bool is_shared, int threads) const {
    for (int i = threadIdx.x; i < count; i += threads) chunks[i] = first_chunk(i, is_shared);
  }
};

// A warp's share of the block's chunks, ordered by tile, then row block. Fetches run kSlots - 1 chunks ahead.
template <typename Format, typename Shape>
class WeightRing {
  using C = Chunks<Format>;

 public:
  static constexpr int kSlots = C::kSlots;

  // position of the computing side
  int first_chunk, left, tile, row_block;

  __device__ __forceinline__ WeightRing(const MatvecArgs& args, const Shape& shape, const BlockRows<Format>& rows,
                                        uint8_t* ring, const uint8_t* const* addresses)
      : args_(args), shape_(shape), rows_(rows), ring_(ring), addresses_(addresses) {
    const int row_blocks = rows.count, chunks = row_blocks * shape.tiles, share = quotient(chunks, shape.warps);
    const int more = chunks - share * shape.warps;
    first_chunk = share * shape.warp + min(shape.warp, more);
    left = share + (shape.warp < more);
    tile = quotient(first_chunk, row_blocks);
    row_block = first_chunk - tile * row_blocks;
    fetch_tile_ = tile, fetch_row_block_ = row_block;
    fetch_offset_ = tile * C::kBytes + 16 * shape.lane;
    policy_ = evict_first_policy();
    first_address_ = left > 0 ? rows.first_chunk(row_block, is_shared()) : nullptr;
  }

  // `expert_offset`: bytes. A warp computes these addresses itself, the first before the expert is known, and waits for
  // no other warp.
  template <int kCount>
  __device__ __forceinline__ void fetch_early(int64_t expert_offset) {
    fetch_offset_ += expert_offset;
#pragma unroll 1
    for (int s = 0; s < kCount; ++s) {
      fetch(first_address_, ring_ + s * C::kBytes, s < left);
      if (s + 1 < kCount && s + 1 < left) first_address_ = rows_.first_chunk(fetch_row_block_, is_shared());
    }
  }
  __device__ __forceinline__ void fetch_slots(int first, int end) {
#pragma unroll 1
    for (int s = first; s < end; ++s) fetch_stored(ring_ + s * C::kBytes, s < left);
  }
  // Also starts a later copy into the previous chunk's slot.
  __device__ __forceinline__ const uint8_t* next_chunk() {
    copy_async_wait<kSlots - 2>();
    __syncwarp(); // all lanes' copies of this chunk have landed, and all lanes have used the previous one
    fetch_stored(ring_ + freed_at_, left >= kSlots);
    return ring_ + landed_at_;
  }
  __device__ __forceinline__ void advance() {
    freed_at_ = landed_at_;
    landed_at_ = landed_at_ == (kSlots - 1) * C::kBytes ? 0 : landed_at_ + C::kBytes;
  }

 private:
  __device__ __forceinline__ bool is_shared() const { return args_.is_shared(shape_.slot); }
  __device__ __forceinline__ void fetch_stored(uint8_t* slot, bool any) {
    fetch(any ? addresses_[fetch_row_block_] : nullptr, slot, any);
  }
  __device__ __forceinline__ void fetch(const uint8_t* address, uint8_t* slot, bool any) {
    if (any) {
      const uint8_t* from = address + fetch_offset_;
      const int bytes = C::kRows * shape_.tile_bytes(fetch_tile_) - 16 * shape_.lane;
      const uint32_t to = plain_address(slot + 16 * shape_.lane, args_.cols >> 31);
      [&]<int... kCopy>(std::integer_sequence<int, kCopy...>) {
        constexpr int kStride = 16 * kWarp;
        const auto copy = [&]<int kOffset>(std::integral_constant<int, kOffset>) {
          if ((Shape::kWhole && kOffset + kStride <= C::kBytes) || kOffset < bytes)
            copy_async_16<kOffset>(to, from, policy_);
        };
        (copy(std::integral_constant<int, kCopy * kStride>()), ...);
      }
      (std::make_integer_sequence<int, C::kCopies>());
      if (++fetch_row_block_ == rows_.count) fetch_row_block_ = 0, ++fetch_tile_, fetch_offset_ += C::kBytes;
    }
    copy_async_commit(); // even if empty, so that counts stay in step
  }

  const MatvecArgs& args_;
  const Shape shape_;
  const BlockRows<Format> rows_;
  uint8_t* ring_;
  const uint8_t* const* addresses_;
  int fetch_tile_, fetch_row_block_;
  int64_t fetch_offset_; // of this lane's first copy
  const uint8_t* first_address_;
  uint64_t policy_;
  uint32_t landed_at_ = 0, freed_at_ = (kSlots - 1) * C::kBytes;
};

} // namespace ridge::kernels::cuda
