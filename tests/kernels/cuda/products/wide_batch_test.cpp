// Cuts and input layout of products above 16 tokens.
#include "core/host_device/round_up.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/products/cuts.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/divisor.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace ridge::kernels::cuda;
using namespace ridge;

namespace {

std::optional<TileCut> cut_of(const ChipLimits& chip, int64_t rows, int64_t cols, int64_t tokens, bool next_adds) {
  return cut_wide(chip, {.format = format_numbers(quant::Type::Q4_K),
                         .tokens = tokens,
                         .cols = cols,
                         .parts = 1,
                         .rows = {rows},
                         .residual = next_adds});
}

} // namespace

TEST_CASE("wide activations: every column of every row has a place of its own, where its product looks for it") {
  for (const int64_t rows : {17, 32, 33, 96, 128, 129, 256, 257, 400, 512, 513, 1000, 1025, 1601, 2048}) {
    CAPTURE(rows);
    std::set<int64_t> places;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < 512; ++column) {
        const int64_t of_tile = wide_tile_rows(rows), place = wide_place(rows, of_tile, row / of_tile, row, column);
        places.insert(place);
        // In its 128: span, product of 16, and which of the span's four.
        const int64_t span = column % 128 / 32, product = column % 32 / 4, of_four = column % 4;
        const int64_t tile = place / 64 / of_tile, in_row = place % 64;
        CHECK(place / 64 % of_tile == row % of_tile);
        CHECK(tile == (column / 128 * wide_tiles(rows) + row / of_tile) * 2 + product / 4);
        const int64_t at = ((in_row / 8) ^ (row % 8)) * 8 + in_row % 8 - product % 4 * 16;
        // Lane t has columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of mma's left operand: first and third of the four in
        // front.
        CHECK(at == 2 * span + (of_four % 2 ? 8 : 0) + of_four / 2);
      }
    CHECK(std::ssize(places) == rows * 512);
    CHECK(*places.rbegin() < wide_tiles(rows) * wide_tile_rows(rows) * 512);
    CHECK(wide_tiles(rows) * wide_tile_rows(rows) <= core::round_up(rows, kGemmRows)); // the workspace's rows
  }
}

TEST_CASE("wide activations: sorted rows are those of tiles that lie one behind the other") {
  constexpr int64_t kCols = 320, kTile = 96, kTileHalves = 384 * kTile;
  std::set<int64_t> places;
  for (int64_t row = 0; row < 3 * kTile; ++row)
    for (int64_t column = 0; column < kCols; ++column) {
      const int64_t place = sorted_wide_place(kTile, kCols, row / kTile, row % kTile, column);
      places.insert(place);
      CHECK(place == row / kTile * kTileHalves + wide_place(kTile, wide_tile_rows(kTile), 0, row % kTile, column));
    }
  CHECK(std::ssize(places) == 3 * kTile * kCols);
}

TEST_CASE("experts: inputs of products of warpgroups have room in what the largest batch takes") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4000; ++round) {
    const bool of_heads = round % 2 != 0;
    const auto experts = static_cast<int64_t>(1 + random() % 300);
    const int64_t step = of_heads ? experts : 1, most = static_cast<int64_t>(1 + random() % 20000 / step) * step,
                  slots = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(most / step)) * step;
    CAPTURE(of_heads);
    CAPTURE(experts);
    CAPTURE(most);
    CAPTURE(slots);
    const int64_t rows = sorted_wide_rows(slots, experts, of_heads);
    const int tile = sorted_wide_tile(slots, experts, of_heads);
    const int64_t tiles = of_heads ? experts * wide_tiles(slots / experts) : most_expert_tiles(slots, experts, tile);
    if (rows > 0) CHECK(rows >= tiles * tile);
    if (rows > 0) CHECK(tiles * tile >= slots);
    CHECK(tiles <= most_expert_tiles(slots, experts, 8)); // their memory
    CHECK(rows <= sorted_wide_rows(most, experts, of_heads));
  }
  CHECK(sorted_wide_rows(64, 128, false) == 0);
}

TEST_CASE("wide batches: every part has columns, and sums have room") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const int64_t cols = 32 * static_cast<int64_t>(1 + random() % (round % 2 ? 1000 : 30)),
                  row_tiles = static_cast<int64_t>(1 + random() % (round % 3 ? 2000 : 20));
    const auto tokens = static_cast<int64_t>(17 + random() % (round % 4 ? kMaxDividedTokens : 4096));
    CAPTURE(cols);
    CAPTURE(row_tiles);
    CAPTURE(tokens);
    const std::optional<TileCut> cut = cut_of(kPresumedLimits, row_tiles * kBatchRows, cols, tokens, random() % 2);
    REQUIRE(cut);
    CHECK((cut->log2_parts >= 0 && cut->log2_parts <= 2));
    const int64_t pieces = int64_t{cut->ranges} << cut->log2_parts;
    CHECK((cut->ranges == 1 || pieces <= (cols + kWideColumns - 1) / kWideColumns));
    CHECK(cut->ranges <= (tokens > kMaxDividedTokens ? 1 : cols / 256 + 1));
    CHECK(cut->token_tiles * wide_tile_rows(tokens) >= tokens);
    if (cut->ranges > 1)
      CHECK(cut->ranges * row_tiles * kBatchRows * wide_tiles(tokens) * wide_tile_rows(tokens) * kFloatBytes <=
            kBatchScratchBytes);
  }
  CHECK_FALSE(cut_of({132, 99 << 10}, 4096, 4096, 32, true));
}

TEST_CASE("wide batches: matrices of an 8B keep most multiprocessors busy, down with the fewest sums to add") {
  for (const int tokens : {32, 64, 96, 128, 192, 256}) {
    CAPTURE(tokens);
    const auto blocks = [&](int64_t rows, int64_t cols, bool next_adds) {
      const TileCut cut = cut_of(kPresumedLimits, rows, cols, tokens, next_adds).value();
      const int64_t row_groups = wide_groups(tokens) >> cut.log2_parts;
      return (rows / kWideRows + row_groups - 1) / row_groups * cut.ranges;
    };
    CHECK(blocks(28672, 4096, false) == (tokens > 96 ? 224 : 112));
    for (const int64_t count : {blocks(4096, 14336, true), blocks(4096, 4096, true), blocks(5120, 4096, false)}) {
      CHECK(count >= 64);
      CHECK(count <= 132);
    }
    if (tokens <= 96) CHECK(cut_of(kPresumedLimits, 1024, 4096, tokens, false)->ranges == 1);
  }
}

TEST_CASE("a divisor divides as a division does") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int by = 1; by <= 3000; ++by) {
    const Divisor divisor(by);
    const int most = static_cast<int>(std::min<int64_t>((int64_t{1} << 32) / by - 1, INT32_MAX));
    for (const int number : {0, 1, by - 1, by, by + 1, 2 * by - 1, most, most / by * by, most / by * by - 1}) {
      if (number < 0 || number > most) continue;
      CAPTURE(by);
      CAPTURE(number);
      CHECK(divisor.quotient(number) == number / by);
    }
    for (int i = 0; i < 20; ++i) {
      const int number = static_cast<int>(random() % (static_cast<uint64_t>(most) + 1));
      CAPTURE(by);
      CAPTURE(number);
      CHECK(divisor.quotient(number) == number / by);
    }
  }
}
