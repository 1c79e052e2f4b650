// Divisions of products on every chip, for every format.
#include "kernels/cuda/plan/candidates.h"
#include "kernels/cuda/plan/chip.h"
#include "kernels/cuda/products/cuts.h"
#include "support/numerics.h"
#include "support/random_program.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge;
using namespace ridge::kernels::cuda;

namespace {

ProductDesc random_product(std::mt19937_64& random, const quant::FormatInfo& format) {
  ProductDesc product{.format = format_numbers(format.type)};
  const int64_t unit = std::max<int64_t>(32, format.block_weights);
  product.tokens = static_cast<int64_t>(1 + random() % 96);
  product.cols = unit * static_cast<int64_t>(1 + random() % (16384 / unit));
  product.gated = random() % 3 == 0;
  product.parts = product.gated ? 2 : static_cast<int>(1 + random() % 3);
  for (int i = 0; i < product.parts; ++i) product.rows[i] = static_cast<int64_t>(1 + random() % 20000);
  if (product.gated) product.rows[1] = product.rows[0];
  product.experts = random() % 3 == 0;
  product.one_matrix = !product.experts;
  return product;
}

} // namespace

TEST_CASE("cuts: every product is a matvec, and no kernel takes more shared memory than a block of the chip has") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const KnownChip& chip : known_chips())
    for (const quant::FormatInfo& format : quant::formats()) {
      const DeviceLimits limits = limits_of(chip.compute, chip.sm_count);
      const ProductDesc product = random_product(random, format);
      CAPTURE(std::string(chip.name));
      CAPTURE(std::string(format.name));
      CAPTURE(product.cols);
      CAPTURE(product.tokens);
      for (const bool exact : {false, true}) {
        const MatvecCut cut = cut_matvec(limits, product, exact);
        if (limits.shared_per_block > 200 << 10) REQUIRE(cut.warps > 0);
        if (cut.warps == 0) continue; // wide rows on small chips
        CHECK(cut.shared_bytes <= limits.shared_per_block);
        CHECK(cut.blocks <= product.row_blocks());
        CHECK((cut.tokens == 1 || (!exact && !product.experts && cut.tokens <= kMaxMatvecTokens)));
      }
      for (const int tile : {8, 16, 32}) {
        const std::optional<TileCut> cut = cut_tiles(limits, product, tile);
        if (!cut) continue;
        CHECK(cut->shared_bytes <= limits.shared_per_block - kBatchStaticBytes);
        CHECK(cut->range_tiles * cut->ranges >= product.format.tiles_of(product.cols));
        CHECK((cut->serial_ranges || !product.experts || cut->ranges == 1));
        CHECK((cut->shares >= 1 && cut->shares <= cut->row_tiles));
      }
      if (const std::optional<DotsCut> cut = cut_dots(limits, product)) {
        CHECK(cut->shared_bytes <= limits.shared_per_block - kDotStaticBytes);
        CHECK((cut->stages > kDotConsumers / cut->team && cut->stages <= kMaxDotStages));
        CHECK((1 << cut->log2_team == cut->team && cut->row_block_pitch % 16 == 0));
      }
    }
}

TEST_CASE("cuts: two formats' products share blocks by their bytes, where rows are whole warp tiles") {
  const auto of = [](quant::Type type, int64_t cols, int64_t rows) {
    return ProductDesc{.format = format_numbers(type), .tokens = 1, .cols = cols, .parts = 1, .rows = {rows}};
  };
  using enum quant::Type;
  const ChipLimits chip = limits_of(90, 132);
  const std::optional<PairCut> cut = cut_pair(chip, of(Q4_K, 4096, 5120), of(Q6_K, 4096, 1024));
  REQUIRE(cut);
  CHECK(cut->first_blocks == 102); // 5,120 x 576 of 5,120 x 576 + 1,024 x 848 bytes
  CHECK(cut->warps == kMatvecWarps);
  const std::optional<PairCut> small = cut_pair(limits_of(86, 82), of(Q4_K, 4096, 5120), of(Q6_K, 4096, 1024));
  REQUIRE(small); // rings of half the warps still hold more than a GeForce card's memory has under way
  CHECK((small->warps >= kMatvecWarps / 2 && small->warps < kMatvecWarps));
  CHECK(small->shared_bytes <= limits_of(86, 82).shared_per_block);
  CHECK_FALSE(cut_pair(limits_of(75, 40), of(Q4_K, 4096, 5120), of(Q6_K, 4096, 1024)));
  CHECK_FALSE(cut_pair(chip, of(Q4_K, 3840, 5120), of(Q6_K, 3840, 1024)));
  CHECK_FALSE(cut_pair(chip, of(Q6_K, 4096, 5120), of(Q6_K, 4096, 1024)));
  CHECK_FALSE(cut_pair(chip, of(Q4_K, 4096, 5120), of(Q8_0, 4096, 1024)));
  CHECK_FALSE(cut_pair({1, chip.shared_per_block}, of(Q4_K, 4096, 5120), of(Q6_K, 4096, 1024)));
}

TEST_CASE(
    "cuts: a matvec's blocks share the rows of its adapters' A, where shared memory has room behind the product's") {
  const auto of = [](quant::Type type, int64_t rows, int64_t rank, int64_t tokens = 1) {
    return ProductDesc{
        .format = format_numbers(type), .tokens = tokens, .cols = 4096, .parts = 1, .rows = {rows}, .ranks = {rank}};
  };
  using enum quant::Type;
  const ChipLimits chip = limits_of(90, 132);
  for (const quant::FormatInfo& format : quant::formats())
    for (const int64_t tokens : {1, 2}) {
      const std::optional<AdaptedCut> cut = cut_adapted(chip, of(format.type, 4096, 150, tokens));
      CAPTURE(std::string(format.name));
      if (const FormatNumbers n = format_numbers(format.type); n.packed && n.lut_bytes == 0) REQUIRE(cut);
      if (!cut) continue;
      CHECK(cut->blocks == 132);
      CHECK(cut->adapter.rows == 2);
      CHECK(cut->adapter.b_offset == 2 * 4096 * 2);
      CHECK(cut->adapter.shared_offset + cut->adapter.scaled_offset < cut->shared_bytes);
      CHECK(cut->shared_bytes <= chip.shared_per_block);
    }
  REQUIRE(cut_adapted(chip, of(Q4_K, 4096, 16)));
  CHECK(cut_adapted(chip, of(Q4_K, 4096, 16))->adapter.rows == 1);
  CHECK_FALSE(cut_adapted(chip, of(Q4_K, 4096, 16, 3)));
  CHECK_FALSE(cut_adapted(chip, of(Q4_K, 4096, 4 * 132 + 1)));
  CHECK_FALSE(cut_adapted({132, 96 << 10}, of(Q4_K, 4096, 16)));
  // An 8B's ffn_down: a product without room sends the whole step to the ops.
  for (const quant::Type type : {Q4_K, Q6_K})
    for (const int64_t tokens : {1, 2}) {
      ProductDesc down = of(type, 4096, 16, tokens);
      down.cols = 14336;
      const std::optional<AdaptedCut> cut = cut_adapted(chip, down);
      REQUIRE(cut);
      CHECK(cut->shared_bytes <= chip.shared_per_block);
      CHECK((cut->warps == kMatvecWarps) == (type == Q4_K || tokens == 1));
    }
  const std::optional<PairCut> pair = cut_pair(chip, of(Q4_K, 5120, 16), of(Q6_K, 1024, 0));
  REQUIRE(pair);
  CHECK(pair->first_blocks == cut_pair(chip, of(Q4_K, 5120, 0), of(Q6_K, 1024, 0))->first_blocks);
  CHECK(pair->adapters[0].rows == 1);
  CHECK(pair->adapters[1].rows == 0);
  CHECK_FALSE(cut_pair(chip, of(Q4_K, 5120, 0), of(Q6_K, 1024, 4 * 132)));
}

TEST_CASE("cuts: tokens share passes over a matrix unless slots choose others") {
  tests::RandomProgram model(1);
  const core::WeightId weight = model.weight(quant::Type::Q4_K, 256, 64);
  const auto tokens = [&](const MatrixStep& m) {
    return cut_matvec(limits_of(90, 132), desc_of(model.program, m, 4), false).tokens;
  };
  MatrixStep m{.x = 0, .parts = {{weight, kNone, 1}}};
  CHECK(tokens(m) == 4);
  m.ids = 2;
  CHECK(tokens(m) == 1);
  m.of_heads = true; // of one head
  CHECK(tokens(m) == 4);
  m.used = 2;
  CHECK(tokens(m) == 1);
}

TEST_CASE(
    "cuts: a folded router's rows lie on all blocks of a product, two each at most, beside blocks for the choice") {
  ProductDesc product{.format = format_numbers(quant::Type::Q8_0),
                      .tokens = 1,
                      .cols = 1024,
                      .parts = 1,
                      .rows = {2048},
                      .residual = true};
  const auto cut = [&](int multiprocessors, int64_t experts) {
    const ChipLimits chip = limits_of(90, multiprocessors);
    const std::optional<RouterCut> cut = cut_router(chip, product, experts, 2048);
    if (cut) CHECK(cut->shared_bytes <= chip.shared_per_block);
    return cut.value_or(RouterCut{});
  };
  CHECK(cut(132, 1).rows == 1);
  CHECK(cut(132, 256).rows == 2);
  CHECK(cut(129, 256).blocks == 128);
  CHECK(cut(128, 256).rows == 0);
  CHECK(cut(2, 2).rows == 2);
  CHECK(cut(2, 3).rows == 0);
  CHECK(cut(1, 1).rows == 0);
  product.tokens = 2;
  CHECK(cut(132, 128).blocks == 130);
  CHECK(cut(132, 128).rows == 1);
  CHECK(cut(132, 261).rows == 0);
  CHECK(cut(2, 1).rows == 0);
  CHECK(cut(3, 2).rows == 2);

  // qwen3-30b-a3b's: beside a row of 24 KB a block of 99 KB has room for fewer warps, beside two for too few.
  product.format = format_numbers(quant::Type::Q4_K), product.tokens = 1, product.cols = 4096;
  const auto warps = [&](int compute, int multiprocessors) {
    const ChipLimits chip = limits_of(compute, multiprocessors);
    const std::optional<RouterCut> cut = cut_router(chip, product, 128, 2048);
    if (cut) CHECK(cut->shared_bytes <= chip.shared_per_block);
    return cut ? cut->warps : 0;
  };
  CHECK(warps(90, 132) == kMatvecWarps);
  CHECK(warps(120, 170) >= kLeastJoinedWarps);
  CHECK(warps(120, 170) < kMatvecWarps);
  CHECK(warps(89, 128) == 0);
}
