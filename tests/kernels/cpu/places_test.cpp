// Rows and axes of tokens.
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"

#include "support/placed_batches.h"

using namespace ridge;

TEST_CASE("rows, places and blocks of tokens are what they mean") {
  tests::for_each_placed_setting([](const tests::PlacedSetting& setting) {
    tests::RandomProgram m(tests::fresh_seed());
    tests::make_placed_program(m, setting);
    CHECK(tests::placed_error(kernels::cpu::make_cpu_executor, m, tests::exact_config(), setting, {10, 13}) < 1e-9);
  });
}

TEST_CASE("batches with rows and places that a Program does not take are refused") {
  tests::RandomProgram m(1);
  m.finish(m.embed(quant::Type::F32, 8, 20));
  const auto executor = kernels::cpu::make_cpu_executor(m.program, tests::exact_config());
  const std::vector<int32_t> zero = {0}, one_given = {-1}, axes = {0, 0, 0, 0};
  const std::vector<float> row(8);
  const auto refuses = [&](const std::vector<int32_t>& tokens, std::span<const float> rows,
                           std::span<const int32_t> places) {
    core::Batch batch{tokens, zero, {}, zero};
    batch.rows = rows;
    batch.axes = places;
    CHECK_THROWS_AS(executor->forward(batch), core::Error);
  };
  refuses(one_given, {}, {});
  refuses(one_given, row, {});
  refuses(zero, row, {});
  refuses(zero, {}, axes);
}
