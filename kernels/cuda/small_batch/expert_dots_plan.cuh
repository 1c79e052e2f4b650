// Divides expert_dots.cuh's work and shared memory.
#pragma once

#include "kernels/cuda/matvec/matvec_groups.cuh"
#include "kernels/cuda/small_batch/expert_dots.h"

#include <algorithm>

namespace ridge::kernels::cuda {

// Formats whose products are integer dot products of codes alone.
template <typename Format>
concept DotFormat = quant::PackedFormat<Format> && !Layout<Format>::Bias::kLowers;

inline constexpr int kDotStaticBytes = 1024;
inline constexpr int kUnitGroups = 4;

template <typename Format>
struct ExpertDotShape {
  using U = TileLayout<Format>;
  static constexpr int kConsumers = 16, kFinishers = 3, kWarps = kConsumers + kFinishers + 1; // the last one fetches
  static constexpr int kThreads = kWarps * kWarp, kMaxStages = 32;
  static constexpr int kRowBlockRows = U::kRowBlockRows, kRowBlocks = kBatchRows / kRowBlockRows;
  // A unit: 16 bytes for each half group, group and part (high, low), in the lanes' order; then ColumnScales.
  static constexpr int kPartBytes = 16 * 2 * kUnitGroups, kUnitBytes = 2 * kPartBytes + 16 * kUnitGroups;
  static constexpr int kSumBytes = kConsumers * kDotTokens * kBatchRows * 4, kZeroBytes = 2 * kPartBytes;

  // Row g of the first or second eight. Lanes read eight rows at a time; to avoid bank conflicts none should be a
  // multiple of 128 bytes behind another, so from row blocks of four warp tiles of 64 · n bytes (n odd) each eight
  // takes two rows.
  static constexpr bool kSpread = kRowBlockRows == 4 && U::kBytes % 128 == 64;
  static RIDGE_HD constexpr int row(int g, int second) {
    return kSpread ? g / 2 * 4 + g % 2 + 2 * second : g + 8 * second;
  }

  static int units(const GemmArgs& args) {
    return static_cast<int>((U::groups_of(args.cols) + kUnitGroups - 1) / kUnitGroups);
  }
  // The distance of row blocks with the fewest bank conflicts among eight rows.
  static int row_block_pitch(int64_t row_bytes) {
    int best = 0, fewest = kBatchRows;
    for (int gap = 0; gap < 128; gap += 16) {
      const int pitch = static_cast<int>(row_bytes) * kRowBlockRows + gap;
      int rows_at[8] = {}, most = 0;
      for (int g = 0; g < 8; ++g) {
        const int r = row(g, 0), at = r / kRowBlockRows * pitch + r % kRowBlockRows * U::kBytes;
        most = std::max(most, ++rows_at[at / 16 % 8]);
      }
      if (most < fewest) best = pitch, fewest = most;
    }
    return best;
  }
};

// Returns bytes of shared memory, or 0 if row tiles are too large.
template <DotFormat Format>
int plan_expert_dots(const ChipLimits& chip, ExpertDotArgs& args) {
  using S = ExpertDotShape<Format>;
  constexpr int kInFlight = 64 << 10;
  const GemmArgs& product = args.product.product;
  if ((!args.product.gated && product.segments > 1) || product.cols % 32 != 0) return 0;
  const int limit = chip.shared_per_block - kDotStaticBytes, token = S::units(product) * S::kUnitBytes;
  args.row_block_pitch = S::row_block_pitch(product.row_bytes);
  args.product.row_tiles = static_cast<int>(batch_row_tiles(product, args.product.gated));
  args.room = std::clamp(limit / 4 / token, kDotTokens, 2 * kDotTokens);
  const int stage = S::kRowBlocks * args.row_block_pitch, others = S::kSumBytes + S::kZeroBytes + args.room * token;
  const int most = std::min((limit - others) / stage, S::kMaxStages);
  // The fewest warps per row tile that leave enough stages, since each has sums to hand over. A stage belongs to one
  // team, which therefore waits for every phase of it.
  args.row_tile_count = Divisor(args.product.row_tiles);
  args.log2_team = 0;
  for (args.team = 1; args.team <= S::kConsumers; args.team *= 2, ++args.log2_team) {
    const int teams = S::kConsumers / args.team;
    args.stages = most / teams * teams;
    if (args.stages > teams && ((args.stages - teams) * stage >= kInFlight || teams == 1))
      return others + args.stages * stage;
  }
  return 0;
}

} // namespace ridge::kernels::cuda
