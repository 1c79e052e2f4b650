#include "kernels/cuda/products/cuts.h"

#include <cmath>

namespace ridge::kernels::cuda {

using core::ceil_div;
using core::round_up;

namespace {

// What a matvec multiplies. `exact` keeps activations in f32, which needs no table.
struct MatvecWork {
  const ProductDesc& product;
  int tokens;
  bool exact = false;

  int64_t shared_bytes(int warps, int64_t row_blocks) const {
    const FormatNumbers& format = product.format;
    const int64_t group_bytes = exact ? 4 * format.group_weights : format.group_bytes;
    const int chunk = chunk_bytes(format.tile_bytes), slots = chunk_slots(format.tile_bytes);
    return (exact ? 0 : format.lut_bytes) + int64_t{warps} * (slots * chunk + 4 * tokens) +
           tokens * (format.groups_of(product.cols) * group_bytes + 16) + (row_blocks + 1) / 2 * 16 +
           row_blocks * row_block_rows(format.tile_bytes) * format.tiles_of(product.cols) * tokens * 4 + 16;
  }
  // As many as have room for their rings beside a row block or two.
  int warps(const ChipLimits& chip) const {
    const int64_t none = shared_bytes(0, 2), each = shared_bytes(1, 2) - none;
    return static_cast<int>(std::clamp<int64_t>((chip.shared_per_block - none) / each, 0, kMatvecWarps));
  }
  int64_t row_blocks(int blocks) const { return ceil_div(product.row_blocks(), blocks) * (product.gated ? 2 : 1); }
  int64_t shared_of(int blocks, int warps) const { return shared_bytes(warps, row_blocks(blocks)); }
  // Whether it waits for its whole input before it starts: a large table and few weights leave time for that.
  bool waits(int blocks) const {
    return product.format.lut_bytes >= 48 << 10 &&
           row_blocks(blocks) * product.format.tiles_of(product.cols) < 2 * kMatvecWarps;
  }
};

// A block that takes over half of the shared memory is alone on its multiprocessor. Otherwise overlapping launches
// would start two blocks on the multiprocessor that is free first.
int64_t alone(const ChipLimits& chip, int64_t bytes) {
  return std::max(bytes, int64_t{chip.shared_per_block} / 2 + 2048);
}

MatvecCut cut_passes(const ChipLimits& chip, const MatvecWork& work) {
  MatvecCut cut{.tokens = work.tokens, .exact = work.exact, .warps = work.warps(chip)};
  if (cut.warps < 1) return cut.shared_bytes = work.shared_bytes(1, 2), cut;
  // One wave, or more if sums would not fit.
  const int64_t tasks = ceil_div(work.product.tokens, work.tokens);
  const int row_blocks = work.product.row_blocks();
  cut.blocks = static_cast<int>(std::min<int64_t>(row_blocks, std::max<int64_t>(1, chip.sm_count / tasks)));
  const auto needed = [&] { return work.shared_of(cut.blocks, cut.warps); };
  while (needed() > chip.shared_per_block) cut.blocks = std::min(row_blocks, cut.blocks + chip.sm_count);
  cut.shared_bytes = alone(chip, needed());
  cut.waits = work.waits(cut.blocks);
  return cut;
}

} // namespace

MatvecCut cut_matvec(const ChipLimits& chip, const ProductDesc& product, bool exact) {
  // Experts differ between tokens. In exact mode the order of sums must not depend on the batch.
  const bool single = product.tokens == 1 || !product.one_matrix || exact;
  const auto of = [&](int tokens, bool exact = false) { return MatvecWork{product, tokens, exact}; };
  const int most = of(1).warps(chip);
  // Exact mode needs no table, which may not fit. For float formats results are otherwise the same.
  if (product.format.packed || product.format.lut_bytes > 0) {
    const bool crowded = !product.format.packed && of(1, true).warps(chip) > 2 * most;
    if (exact || most < 1 || crowded) return cut_passes(chip, of(1, true));
  }
  const auto spares = [&](int tokens) { return !single && of(tokens).warps(chip) > most * 3 / 4; };
  return cut_passes(chip, of(product.tokens > 2 && spares(kMaxMatvecTokens) ? kMaxMatvecTokens : spares(2) ? 2 : 1));
}

namespace {

struct Beside {
  AdapterCut cut;
  int64_t shared_bytes; // with the product's
};

// Behind the product's shared memory: [rows of A][B of the block's results][scaled values][sums][two barriers].
std::optional<Beside> cut_beside(const ChipLimits& chip, const MatvecWork& work, int blocks, int warps) {
  const ProductDesc& product = work.product;
  if (product.experts || work.tokens > 2 || product.cols % 32 != 0) return std::nullopt;
  const auto rows = static_cast<int>(ceil_div(product.padded_ranks(), blocks));
  const int64_t results = ceil_div(product.row_blocks(), blocks) * row_block_rows(product.format.tile_bytes);
  const int64_t offset = round_up(work.shared_of(blocks, warps), 16), b = int64_t{rows} * product.cols * 2,
                scaled = b + results * product.adapter_columns() * 2;
  const int64_t bytes =
      offset + scaled + (work.tokens * product.padded_ranks() + adapter_sums(work.tokens, rows)) * 4 + 16;
  if (rows > kMaxAdapterRows || bytes > chip.shared_per_block) return std::nullopt;
  const auto with_rows = static_cast<int>(rows == 0 ? 0 : ceil_div(product.padded_ranks(), rows));
  return Beside{{rows, with_rows, static_cast<int>(offset), static_cast<int>(b), static_cast<int>(scaled)}, bytes};
}

} // namespace

std::optional<AdaptedCut> cut_adapted(const ChipLimits& chip, const ProductDesc& product) {
  const MatvecWork work{product, static_cast<int>(product.tokens)};
  const int blocks = std::min(product.row_blocks(), chip.sm_count);
  for (int warps = kMatvecWarps; warps >= kLeastAdaptedWarps; --warps)
    if (const std::optional<Beside> beside = cut_beside(chip, work, blocks, warps))
      return AdaptedCut{warps, blocks, alone(chip, beside->shared_bytes), work.waits(blocks), beside->cut};
  return std::nullopt;
}

std::optional<PairCut> cut_pair(const ChipLimits& chip, const ProductDesc& first, const ProductDesc& second) {
  using enum quant::Type;
  // Formats that recipes give attn_v beside others with blocks of 256 weights.
  const quant::Type other = second.format.type;
  if (!first.format.packed || first.format.block_weights != 256 || first.format.type == other ||
      (other != Q4_K && other != Q5_K && other != Q6_K))
    return std::nullopt;
  const auto tokens = static_cast<int>(first.tokens);
  const MatvecWork work[2] = {{first, tokens}, {second, tokens}};
  if (!first.format.is_whole(first.cols) || chip.sm_count < 2) return std::nullopt;
  const auto bytes = [](const ProductDesc& of) {
    return static_cast<double>(of.all_rows()) * static_cast<double>(of.format.row_bytes(of.cols));
  };
  PairCut cut;
  cut.first_blocks =
      std::clamp(static_cast<int>(std::lround(chip.sm_count * bytes(first) / (bytes(first) + bytes(second)))), 1,
                 chip.sm_count - 1);
  const int blocks[] = {cut.first_blocks, chip.sm_count - cut.first_blocks};
  const auto of_both = [&](int warps) {
    return std::max(work[0].shared_of(blocks[0], warps), work[1].shared_of(blocks[1], warps));
  };
  cut.warps = kMatvecWarps;
  while (of_both(cut.warps) > chip.shared_per_block)
    if (--cut.warps < kLeastJoinedWarps) return std::nullopt;
  int64_t needed = of_both(cut.warps);
  for (const int i : {0, 1}) {
    cut.waits[i] = work[i].waits(blocks[i]);
    if (!first.adapted() && !second.adapted()) continue;
    const std::optional<Beside> beside = cut_beside(chip, work[i], blocks[i], kMatvecWarps);
    if (!beside) return std::nullopt;
    cut.adapters[i] = beside->cut;
    needed = std::max(needed, beside->shared_bytes);
  }
  if (needed > chip.shared_per_block) return std::nullopt;
  cut.shared_bytes = alone(chip, needed);
  return cut;
}

std::optional<RouterCut> cut_router(const ChipLimits& chip, const ProductDesc& product, int64_t experts,
                                    int64_t width) {
  const MatvecWork work{product, static_cast<int>(product.tokens)};
  if (!product.format.packed || !product.format.is_whole(product.cols)) return std::nullopt;
  RouterCut cut;
  cut.blocks = std::min(product.row_blocks(), chip.sm_count - work.tokens);
  if (experts > int64_t{kMaxRouterRows} * cut.blocks || work.waits(cut.blocks)) return std::nullopt;
  cut.rows = static_cast<int>(ceil_div(experts, cut.blocks));
  const int64_t scores = router_scores_bytes(product.cols + width, cut.rows);
  for (cut.warps = kMatvecWarps; cut.warps >= kLeastJoinedWarps; --cut.warps) {
    cut.product_bytes = round_up(work.shared_of(cut.blocks, cut.warps), 16);
    if (cut.product_bytes + scores > chip.shared_per_block) continue;
    cut.shared_bytes = alone(chip, cut.product_bytes + scores);
    return cut;
  }
  return std::nullopt;
}

// Tries all numbers of warp groups and column ranges that fit, and takes those with the least estimated cost.
std::optional<TileCut> cut_tiles(const ChipLimits& chip, const ProductDesc& product, int tile_tokens) {
  const int group_weights = product.format.group_weights, tile_bytes = product.format.tile_bytes;
  const int limit = chip.shared_per_block - kBatchStaticBytes, min_slots = batch_min_slots(group_weights, tile_bytes);
  const int slot_bytes = batch_slot_bytes(tile_bytes), chunk_tiles = kChunkColumns / 32 / group_weights;
  const int sums_bytes = batch_consumer_warps(group_weights) * tile_tokens * kBatchRows * 4;
  const auto warp_tiles = static_cast<int>(product.format.tiles_of(product.cols));
  const auto bytes = [&](int warp_groups, int range) {
    return warp_groups * (sums_bytes + min_slots * slot_bytes) +
           ceil_div(range, chunk_tiles) * tile_tokens * kChunkPitch;
  };
  const int token_tiles = product.experts ? 1 : ceil_div(static_cast<int>(product.tokens), tile_tokens);
  const int row_tiles = product.row_tiles();
  // Unit: a warp tile of 16 rows fetched by a multiprocessor.
  const double part_cost = tile_tokens * kBatchRows * 8.0 / (kBatchRows * tile_bytes);
  constexpr double kPassCost = 10;  // a pass loads activations while no weights arrive
  constexpr double kFinishCost = 8; // another kernel adds the ranges' sums
  std::optional<TileCut> best;
  double least = 0;
  for (int warp_groups = batch_warp_groups(group_weights); warp_groups > 0; --warp_groups)
    for (int chunks = ceil_div(warp_tiles, chunk_tiles); chunks > 0; --chunks) {
      const int range = chunks * chunk_tiles, ranges = ceil_div(warp_tiles, range);
      if (bytes(warp_groups, range) > limit || chunks > kMaxChunks) continue;
      if (ceil_div(ceil_div(warp_tiles, chunk_tiles), ranges) != chunks) continue;
      for (const bool serial_ranges : {false, true}) {
        if (serial_ranges ? ranges == 1 && !product.experts : ranges > 1 && product.experts) continue;
        const int in_parallel = token_tiles * (serial_ranges ? 1 : ranges);
        const int shares = std::min(product.experts ? 4 : std::max(1, chip.sm_count / in_parallel), row_tiles);
        const int rows = ceil_div(row_tiles, shares), rounds = ceil_div(in_parallel * shares, chip.sm_count);
        const int64_t parts = ranges == 1     ? 0
                              : serial_ranges ? int64_t{chip.sm_count} * rows
                                              : int64_t{token_tiles} * row_tiles * ranges;
        if (parts * tile_tokens * kBatchRows * 4 > kBatchScratchBytes) continue;
        const int passes = serial_ranges ? ranges : 1;
        const double cost = rounds * (passes * range * (rows + ceil_div(rows, warp_groups)) + kPassCost * passes +
                                      (ranges > 1 ? part_cost * rows * passes : 0)) +
                            (ranges > 1 && !serial_ranges ? kFinishCost : 0);
        if (best && cost >= least) continue;
        least = cost;
        best = TileCut{token_tiles, row_tiles, ranges, serial_ranges, range, warp_groups, shares};
      }
    }
  if (!best) return std::nullopt;
  const int needed = bytes(best->warp_groups, best->range_tiles);
  const int more = std::min((limit - needed) / (best->warp_groups * slot_bytes), kMaxBatchSlots - min_slots);
  best->slots = min_slots + more;
  best->shared_bytes = needed + more * best->warp_groups * slot_bytes;
  return best;
}

namespace {

// Unit: 128 columns of a block's rows, 1.1 µs on an H200.
constexpr double kStartUnits = 3;          // first weights, and sums
constexpr double kFinish = 7;              // a kernel that adds ranges
constexpr double kFinishNext = 1;          // or the next conversion
constexpr double kL2BytesPerUnit = 5e6;    // activations
constexpr double kSumBytesPerUnit = 3.3e6; // partial sums

} // namespace

std::optional<TileCut> cut_wide(const ChipLimits& chip, const ProductDesc& product) {
  if (chip.shared_per_block < kWideSharedBytes + kWideStaticBytes) return std::nullopt;
  const int of_tile = wide_tile_rows(product.tokens), groups = wide_groups(of_tile), row_tiles = product.row_tiles();
  const int64_t token_tiles = wide_tiles(product.tokens), slots = wide_slots(of_tile);
  const int64_t row_groups = ceil_div(row_tiles, kWideRows / kBatchRows), units = ceil_div(product.cols, kWideColumns);
  const bool next_adds = product.residual && product.parts == 1;
  std::optional<TileCut> best;
  double least = 0;
  for (const int log2_parts : {0, 1, 2}) {
    const int64_t parts = int64_t{1} << log2_parts;
    if (parts > groups || parts * 2 > slots) break;
    const int64_t most_ranges =
        product.tokens > kMaxDividedTokens
            ? 1
            : std::max<int64_t>(1, units / std::max<int64_t>(parts, 2)); // plan_workspace's limit
    for (int64_t ranges = 1; ranges <= most_ranges; ++ranges) {
      const int64_t sum_bytes = ranges == 1 ? 0 : ranges * row_tiles * kBatchRows * token_tiles * of_tile * kFloatBytes;
      if (sum_bytes > kBatchScratchBytes) break;
      const int64_t blocks = ceil_div(row_groups, groups / parts) * ranges * token_tiles;
      const auto block = static_cast<double>(ceil_div(units, parts * ranges)) + kStartUnits;
      const double multiply = static_cast<double>(ceil_div(blocks, chip.sm_count)) * block,
                   load = static_cast<double>(blocks * kWideColumns * of_tile * kF16Bytes) *
                          static_cast<double>(units) / static_cast<double>(ranges) / kL2BytesPerUnit,
                   finish = ranges == 1 ? 0
                            : next_adds ? kFinishNext
                                        : kFinish;
      const double time = std::max(multiply, load) + 2 * static_cast<double>(sum_bytes) / kSumBytesPerUnit + finish;
      if (best && time >= least) continue;
      least = time;
      best = TileCut{.token_tiles = static_cast<int>(token_tiles),
                     .row_tiles = row_tiles,
                     .ranges = static_cast<int>(ranges),
                     .log2_parts = log2_parts};
    }
  }
  return best;
}

TileCut cut_sorted_wide(const ProductDesc& product, int64_t experts, int tile_tokens) {
  return {.token_tiles = static_cast<int>(most_expert_tiles(product.tokens, experts, tile_tokens)),
          .row_tiles = product.row_tiles()};
}

namespace {

// The distance of row blocks with the fewest bank conflicts among eight rows.
int row_block_pitch(const FormatNumbers& format, int64_t cols) {
  const int block_rows = row_block_rows(format.tile_bytes);
  const bool spread = dot_rows_spread(format.tile_bytes);
  int best = 0, fewest = kBatchRows;
  for (int gap = 0; gap < 128; gap += 16) {
    const int pitch = static_cast<int>(format.row_bytes(cols)) * block_rows + gap;
    int rows_at[8] = {}, most = 0;
    for (int g = 0; g < 8; ++g) {
      const int r = dot_row(spread, g, 0), at = r / block_rows * pitch + r % block_rows * format.tile_bytes;
      most = std::max(most, ++rows_at[at / 16 % 8]);
    }
    if (most < fewest) best = pitch, fewest = most;
  }
  return best;
}

} // namespace

std::optional<DotsCut> cut_dots(const ChipLimits& chip, const ProductDesc& product) {
  constexpr int kInFlight = 64 << 10;
  if (!product.format.dots || (!product.gated && product.parts > 1) || product.cols % 32 != 0) return std::nullopt;
  const int limit = chip.shared_per_block - kDotStaticBytes,
            token = static_cast<int>(ceil_div(product.format.groups_of(product.cols), kUnitGroups)) * kDotUnitBytes;
  DotsCut cut;
  cut.row_tiles = product.row_tiles();
  cut.row_block_pitch = row_block_pitch(product.format, product.cols);
  cut.room = std::clamp(limit / 4 / token, kDotTokens, 2 * kDotTokens);
  const int stage = kBatchRows / row_block_rows(product.format.tile_bytes) * cut.row_block_pitch,
            others = kDotSumBytes + kDotZeroBytes + cut.room * token;
  const int most = std::min((limit - others) / stage, kMaxDotStages);
  // The fewest warps per row tile that leave enough stages, since each has sums to hand over. A stage belongs to one
  // team, which therefore waits for every phase of it.
  for (cut.team = 1; cut.team <= kDotConsumers; cut.team *= 2, ++cut.log2_team) {
    const int teams = kDotConsumers / cut.team;
    cut.stages = most / teams * teams;
    if (cut.stages <= teams || ((cut.stages - teams) * stage < kInFlight && teams > 1)) continue;
    cut.shared_bytes = others + cut.stages * stage;
    return cut;
  }
  return std::nullopt;
}

} // namespace ridge::kernels::cuda
