// GEMM calibration.
#include "core/json/state_file.h"
#include "engine/loading/kept_ways.h"
#include "measure/ways/calibration.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>

using namespace ridge;
using measure::fit_way_factors;
using measure::regret_with;
using measure::RegretRow;

namespace {

// One layer.
RegretRow row_of(int64_t tokens, const std::vector<RegretRow::Way>& ways) {
  RegretRow row{.tokens = tokens, .products = "ffn_down", .layers = 1, .ways = ways};
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].expected_us < ways[row.chosen].expected_us) row.chosen = i;
    if (ways[i].step_us < ways[row.best].step_us) row.best = i;
  }
  return row;
}

} // namespace

TEST_CASE("calibration: a way that takes longer than expected is chosen less, and none is where all is as expected") {
  const std::vector<RegretRow> right = {row_of(1, {{"matvec", 5, 5, 5}, {"tiles-8", 9, 9, 9}}),
                                        row_of(8, {{"matvec", 20, 20, 20}, {"tiles-8", 10, 10, 10}})};
  CHECK(regret_with(right, {}) == 0);
  CHECK(fit_way_factors(right).empty());
  // Tiles take twice as long.
  const std::vector<RegretRow> slow_tiles = {row_of(1, {{"matvec", 5, 5, 5}, {"tiles-8", 9, 18, 18}}),
                                             row_of(4, {{"matvec", 12, 12, 12}, {"tiles-8", 10, 20, 20}}),
                                             row_of(8, {{"matvec", 16, 16, 16}, {"tiles-8", 10, 20, 20}}),
                                             row_of(16, {{"matvec", 32, 32, 32}, {"tiles-8", 12, 24, 24}})};
  CHECK(regret_with(slow_tiles, {}) > 0.2);
  const std::map<std::string, double> factors = fit_way_factors(slow_tiles);
  CHECK(regret_with(slow_tiles, factors) == 0);
  CHECK_FALSE(factors.empty());
}

TEST_CASE("calibration: whatever the chip, the fitted choice loses no more than the expected one") {
  std::mt19937_64 random(7);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int trial = 0; trial < 20; ++trial) {
    std::map<std::string, double> chip;
    for (const char* way : {"matvec", "tiles-8", "tiles-16", "gemm"}) chip[way] = std::exp2(uniform(-1, 1));
    std::vector<RegretRow> rows;
    for (const int64_t tokens : {1, 4, 16, 64, 256}) {
      std::vector<RegretRow::Way> ways;
      for (const auto& [way, factor] : chip) {
        const double expected = uniform(5, 50), measured = expected * factor * uniform(0.98, 1.02);
        ways.push_back({way, expected, measured, measured});
      }
      rows.push_back(row_of(tokens, ways));
    }
    const double before = regret_with(rows, {}), after = regret_with(rows, fit_way_factors(rows));
    CAPTURE(before);
    CHECK(after <= before);
    CHECK(after < 0.05);
  }
}

TEST_CASE("calibration: factors are kept per GPU, and what is no factor is none") {
  const tests::TemporaryFolder folder;
  ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
  CHECK(engine::kept_way_factors("RTX").empty());
  engine::keep_way_factors("RTX", {{"tiles-8", 1.25}});
  engine::keep_way_factors("H200", {{"wide", 0.5}});
  CHECK(engine::kept_way_factors("RTX") == engine::WayFactors{{"tiles-8", 1.25}});
  engine::keep_way_factors("RTX", {});
  CHECK(engine::kept_way_factors("RTX").empty());
  nlohmann::ordered_json kept = core::read_state("ways.json");
  kept["H200"]["factors"] = {{"wide", -1}, {"gemm", "fast"}, {"matvec", 2}};
  core::write_state("ways.json", kept);
  CHECK(engine::kept_way_factors("H200") == engine::WayFactors{{"matvec", 2}});
  kept["H200"]["version"] = 0;
  core::write_state("ways.json", kept);
  CHECK(engine::kept_way_factors("H200").empty());
}
