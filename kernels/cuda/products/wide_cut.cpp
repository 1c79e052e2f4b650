#include "kernels/cuda/products/wide_cut.h"

#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

// Unit: 128 columns of a block's rows, 1.1 µs on an H200.
constexpr double kStartUnits = 3;          // first weights, and sums
constexpr double kFinish = 7;              // a kernel that adds ranges
constexpr double kFinishNext = 1;          // or the next conversion
constexpr double kL2BytesPerUnit = 5e6;    // activations
constexpr double kSumBytesPerUnit = 3.3e6; // partial sums

int64_t tiles_of(int64_t n, int64_t per_tile) { return (n + per_tile - 1) / per_tile; }

} // namespace

std::optional<WideCut> cut_wide_batch(const ChipLimits& chip, int64_t row_tiles, int64_t cols, int64_t tokens,
                                      bool next_adds) {
  if (chip.shared_per_block < kWideSharedBytes + kWideStaticBytes) return std::nullopt;
  const int of_tile = wide_tile_rows(tokens), groups = wide_groups(of_tile);
  const int64_t token_tiles = wide_tiles(tokens), slots = wide_slots(of_tile);
  const int64_t row_groups = tiles_of(row_tiles, kWideRows / kBatchRows), units = tiles_of(cols, kWideColumns);
  std::optional<WideCut> best;
  double least = 0;
  for (const int log2_parts : {0, 1, 2}) {
    const int64_t parts = int64_t{1} << log2_parts;
    if (parts > groups || parts * 2 > slots) break;
    const int64_t most_ranges = std::max<int64_t>(1, units / std::max<int64_t>(parts, 2)); // plan_workspace's limit
    for (int64_t ranges = 1; ranges <= most_ranges; ++ranges) {
      const int64_t sum_bytes = ranges == 1 ? 0 : ranges * row_tiles * kBatchRows * token_tiles * of_tile * kFloatBytes;
      if (sum_bytes > kBatchScratchBytes) break;
      const int64_t blocks = tiles_of(row_groups, groups / parts) * ranges * token_tiles;
      const auto block = static_cast<double>(tiles_of(units, parts * ranges)) + kStartUnits;
      const double multiply = static_cast<double>(tiles_of(blocks, chip.sm_count)) * block,
                   load = static_cast<double>(blocks * kWideColumns * of_tile * kF16Bytes) *
                          static_cast<double>(units) / static_cast<double>(ranges) / kL2BytesPerUnit,
                   finish = ranges == 1 ? 0
                            : next_adds ? kFinishNext
                                        : kFinish;
      const double time = std::max(multiply, load) + 2 * static_cast<double>(sum_bytes) / kSumBytesPerUnit + finish;
      if (best && time >= least) continue;
      least = time;
      best = WideCut{static_cast<int>(ranges), log2_parts};
    }
  }
  return best;
}

} // namespace ridge::kernels::cuda
