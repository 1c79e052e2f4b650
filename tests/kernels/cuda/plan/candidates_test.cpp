// The way of each product per chip.
#include "kernels/cuda/plan/planning.h"

#include <map>
#include <string>

using namespace ridge;
using namespace ridge::tests;
using kernels::cuda::known_chip;
using kernels::cuda::known_chips;
using kernels::cuda::KnownChip;
using kernels::cuda::ProductChoice;
using kernels::cuda::ProductKernel;

namespace {

std::vector<ProductKernel> ways_of(const Setting& setting, int64_t tokens) {
  std::vector<ProductKernel> ways;
  for (const auto& products : setting.plan(tokens).products) ways.push_back(products.choice.way);
  return ways;
}

Setting on_chip(const KnownChip& chip) {
  Setting setting(one_layer());
  setting.config.max_batch = 4096;
  setting.limits = kernels::cuda::limits_of(chip.compute, chip.sm_count);
  setting.rates = chip.rates();
  return setting;
}

} // namespace

TEST_CASE("candidates: the cheapest one is taken, and what is forced wherever it fits") {
  Setting setting(one_layer());
  for (const int64_t tokens : {1, 2, 3, 8, 17, 64, 65, 300, 1000}) {
    CAPTURE(tokens);
    const std::vector<kernels::cuda::PlannedProducts> planned = setting.plan(tokens).products;
    for (size_t i = 0; i < planned.size(); ++i) {
      const ProductChoice& choice = planned[i].choice;
      REQUIRE_FALSE(choice.estimates.empty());
      const auto& cheapest = *std::ranges::min_element(choice.estimates, {}, &kernels::cuda::Estimate::microseconds);
      CHECK(cheapest.microseconds > 0);
      CHECK(choice.way == cheapest.way);
      for (const auto& estimate : choice.estimates) {
        setting.forced[""] = estimate.way;
        CHECK(setting.plan(tokens).products[i].choice.way == estimate.way);
      }
      setting.forced.clear();
    }
  }
  CHECK_THROWS_AS(known_chip("RTX 2"), std::logic_error);
  CHECK_FALSE(kernels::cuda::way_named("tiles-9"));
  for (const ProductKernel way :
       {ProductKernel::matvec, ProductKernel::tiles_8, ProductKernel::dots, ProductKernel::wide, ProductKernel::gemm,
        ProductKernel::bytes, ProductKernel::prompt})
    CHECK(kernels::cuda::way_named(kernels::cuda::name_of(way)) == way);
}

TEST_CASE("candidates: every chip reads weights once for a token, and shares them among tokens of a prompt") {
  for (const KnownChip& chip : known_chips()) {
    CAPTURE(std::string(chip.name));
    Setting setting = on_chip(chip);
    for (const bool overlap : {true, false}) {
      setting.options.overlap = overlap;
      for (const int64_t tokens : {1, 2}) CHECK(ways_of(setting, tokens) == std::vector(5, ProductKernel::matvec));
    }
    setting.options.overlap = true;
    for (const int64_t side : {1024, 4096, 14336}) {
      setting.least_side = side;
      CHECK(ways_of(setting, 1) == std::vector(5, ProductKernel::matvec));
    }
    setting.least_side = 4096;
    std::vector<ProductKernel> prompt = ways_of(setting, 2049);
    CHECK(prompt.back() == ProductKernel::matvec);
    prompt.pop_back();
    const bool geforce = chip.compute == 86 || chip.compute == 89 || chip.compute == 120;
    CHECK(prompt == std::vector(4, chip.compute == 90 ? ProductKernel::prompt
                                   : geforce          ? ProductKernel::bytes
                                                      : ProductKernel::gemm));
    for (const ProductKernel way : ways_of(setting, 32))
      CHECK((way != ProductKernel::prompt && way != ProductKernel::bytes));
  }
}

TEST_CASE("candidates: Hopper decodes weights into registers for prompts of up to 2,048 tokens, into memory for more") {
  const Setting setting = on_chip(known_chip("H200"));
  for (const auto& [tokens, way] : std::map<int64_t, ProductKernel>{{200, ProductKernel::wide},
                                                                    {512, ProductKernel::wide},
                                                                    {1024, ProductKernel::wide},
                                                                    {2048, ProductKernel::wide},
                                                                    {2049, ProductKernel::prompt},
                                                                    {4096, ProductKernel::prompt}}) {
    CAPTURE(tokens);
    std::vector<ProductKernel> ways = ways_of(setting, tokens);
    ways.pop_back(); // of one row
    CHECK(ways == std::vector(4, way));
  }
}

TEST_CASE("candidates: what a way takes on this GPU is taken into account") {
  Setting setting(one_layer());
  const ProductChoice usual = setting.plan(8, 8).products[2].choice;
  CHECK(usual.way == ProductKernel::tiles_8);
  setting.factors = kernels::cuda::way_factors({{"tiles-8", 4}, {"tiles-9", 0.1}});
  const ProductChoice other = setting.plan(8, 8).products[2].choice;
  CHECK(other.way != ProductKernel::tiles_8);
  for (size_t i = 0; i < usual.estimates.size(); ++i) {
    const double factor = usual.estimates[i].way == ProductKernel::tiles_8 ? 4 : 1;
    CHECK(other.estimates[i].microseconds == doctest::Approx(factor * usual.estimates[i].microseconds));
  }
}

TEST_CASE("candidates: a fast chip reads weights once for a token with an older chip's limits, too") {
  const KnownChip& h200 = known_chip("H200");
  for (const int compute : {75, 80, 86, 89})
    for (const int64_t side : {1024, 4096, 14336}) {
      Setting setting = on_chip(h200);
      setting.limits = kernels::cuda::limits_of(compute, h200.sm_count);
      setting.rates = kernels::cuda::rates_of(compute, h200.sm_count, h200.clock_mhz, h200.bytes_per_us);
      setting.least_side = side;
      CAPTURE(compute);
      CAPTURE(side);
      CHECK(ways_of(setting, 1) == std::vector(5, ProductKernel::matvec));
    }
}

TEST_CASE("candidates: more tokens of a step go the same way or one for more of them") {
  for (const KnownChip& chip : known_chips()) {
    CAPTURE(std::string(chip.name));
    const Setting setting = on_chip(chip);
    ProductKernel before = ProductKernel::matvec; // tiles of 16 may be better for 40 tokens, of 32 for 64
    double least = 0;
    for (int64_t tokens = 1; tokens <= 2048; tokens += 1 + tokens / 8) {
      CAPTURE(tokens);
      const ProductChoice choice = setting.plan(tokens, tokens).products[2].choice;
      const ProductKernel way = kernels::cuda::is_tiled(choice.way) ? ProductKernel::tiles_8 : choice.way;
      CHECK(way >= before);
      before = way;
      double taken = 0;
      for (const auto& estimate : choice.estimates)
        if (estimate.way == choice.way) taken = estimate.microseconds;
      CHECK(taken >= 0.8 * least); // larger steps cost no less, except at changes of way
      least = taken;
    }
  }
}

TEST_CASE("candidates: steps of a few tokens cost little more than one where a chip computes fast for what it reads") {
  const auto cost = [](const char* name, int64_t tokens) {
    Setting setting = on_chip(known_chip(name));
    setting.least_side = 8192;
    const ProductChoice choice = setting.plan(tokens, tokens).products[2].choice;
    for (const auto& estimate : choice.estimates)
      if (estimate.way == choice.way) return estimate.microseconds;
    return 0.0;
  };
  for (const char* name : {"RTX 3060", "RTX 4060", "RTX 4090", "RTX 5090"}) {
    CAPTURE(std::string(name));
    CHECK(cost(name, 8) < 1.5 * cost(name, 1));
    CHECK(cost(name, 512) < 64 * cost(name, 8));
  }
  CHECK(cost("RTX 3060", 1) > 2 * cost("RTX 3090", 1));
  CHECK(cost("T4", 1) > 2 * cost("RTX 3090", 1));
}
