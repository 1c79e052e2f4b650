// Attention over many rounds of keys.
#include "kernels/cuda/executor/executor.h"

#include "attention_models.h"
#include "kernels/cuda/decoding_checks.h"
#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

#include <tuple>

using namespace ridge;
using quant::Type;
using tests::consecutive;
using tests::exact_config;
using tests::GpuOptions;
using tests::make_cuda_executor;
using tests::RandomProgram;
using tests::run;
using tests::Steps;

namespace {

RandomProgram attention_layer(uint64_t seed, int64_t heads, int64_t kv_heads, int64_t dim) {
  return tests::attention_model(seed, {heads, kv_heads, dim, dim, core::RopeStyle::adjacent});
}

double worst_error(RandomProgram& model, const core::ExecutorConfig& config, const std::vector<int32_t>& sizes,
                   int as_compute = 0) {
  const auto make = [&](const core::Program& program, const core::ExecutorConfig& c) {
    GpuOptions options;
    options.as_compute = as_compute;
    return make_cuda_executor(program, c, options);
  };
  return tests::worst_error(make, model, config, sizes);
}

} // namespace

TEST_CASE("CUDA: long contexts are split over blocks, for any head size and grouping") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple(4, 2, 64), {8, 1, 128}, {3, 3, 128}, {20, 1, 64}, {6, 2, 16}, {5, 1, 80}, {8, 1, 256}}) {
    if (!share.takes_next()) continue;
    CAPTURE(heads);
    CAPTURE(kv_heads);
    CAPTURE(dim);
    RandomProgram model = attention_layer(seed, heads, kv_heads, dim);
    core::ExecutorConfig config = exact_config();
    config.context = 350;
    config.max_batch = config.max_outputs = 150;
    CHECK(worst_error(model, config, {150, 1, 70, 1, 90}) < 1e-8);
    config.k_type = config.v_type = core::KvType::f16;
    CHECK(worst_error(model, config, {150, 1, 70, 1, 90}) < 1e-6);
    config.exact = false;
    CHECK(worst_error(model, config, {150, 1, 3, 70, 1, 90}) < 1e-5);
    if (dim % core::kKvBlock != 0) continue;
    using enum core::KvType;
    for (const auto& [k_type, v_type] : {std::pair(q8_0, q8_0), {q8_0, f16}, {f16, q8_0}, {q8_0, f32}, {f32, q8_0}}) {
      CAPTURE(k_type);
      CAPTURE(v_type);
      config.k_type = k_type;
      config.v_type = v_type;
      config.exact = k_type == f32;
      CHECK(worst_error(model, config, {150, 1, 3, 70, 1, 90}) < 3e-5); // ties in 8-bit rounding
    }
  }
}

TEST_CASE("CUDA: attention whose blocks have many rounds of keys, and with little shared memory one at a time") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum core::KvType;
  tests::Share share;
  for (const int64_t dim : {64, 128})
    for (const core::KvType type : {f16, q8_0})
      for (const int chip : {0, 75}) {
        if (!share.takes_next()) continue;
        CAPTURE(dim);
        CAPTURE(type);
        CAPTURE(chip);
        const int64_t heads = chip ? 10240 / dim : 160; // few blocks each; old chips lack shared memory for more
                                                        // columns
        RandomProgram model = attention_layer(seed, heads, heads, dim);
        core::ExecutorConfig config = exact_config();
        config.context = 420;
        config.max_batch = config.max_outputs = 260;
        config.k_type = config.v_type = type;
        CHECK(worst_error(model, config, {127, 1, 1, 1, 254, 1, 1}, chip) < 3e-5);
      }
}

TEST_CASE("CUDA: attention over more keys than a block takes at once is that of all of them, twice the same") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum core::KvType;
  tests::Share share;
  for (const int64_t dim : {64, 128})
    for (const int64_t group : {1, 4, 12})
      for (const core::KvType type : {f16, q8_0}) {
        if (!share.takes_next()) continue;
        CAPTURE(dim);
        CAPTURE(group);
        CAPTURE(type);
        RandomProgram model = attention_layer(seed, group, 1, dim);
        core::ExecutorConfig config = exact_config();
        config.context = 1100;
        config.max_batch = config.max_outputs = 600;
        config.k_type = config.v_type = type;
        CHECK(worst_error(model, config, {500, 1, 1, 530, 1, 1}) < 3e-5);
        CHECK(tests::gives_the_same_twice(model, config, 515));
      }
}

TEST_CASE("CUDA: a q8_0 cache loses little against one in f32") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram model(seed);
  model.transformer({}, Type::F16, Type::F16);
  core::ExecutorConfig config = exact_config();
  const Steps steps = consecutive(model, 0, 60);
  const std::vector<float> full = run(*make_cuda_executor(model.program, config), steps);
  config.k_type = config.v_type = core::KvType::q8_0;
  const auto small = make_cuda_executor(model.program, config);
  CHECK(tests::nmse(run(*small, steps), full) < 1e-3);
}
