// Measurements: ceilings, ladder, step profile.
#include "kernels/cuda/microbench/ladder.h"
#include "kernels/cuda/microbench/microbench.h"

#include "device.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <map>

using namespace ridge;
using quant::Type;

TEST_CASE("CUDA: each ceiling is measured once") {
  REQUIRE_DEVICE();
  std::map<std::string, double> found;
  for (const core::Ceiling& c : kernels::cuda::measure_ceilings()) {
    CAPTURE(c.name);
    CHECK(c.value > 0);
    CHECK(found.emplace(c.name, c.value).second);
  }
  for (const char* name : {"l2_read", "dram_read", "mma_f16", "fp32", "dram_latency", "l2_latency", "host_to_device"})
    CHECK(found.contains(name));
}

TEST_CASE("CUDA: every rung of the ladder computes the product") {
  REQUIRE_DEVICE();
  const kernels::cuda::Ladder ladder = kernels::cuda::climb_ladder(512);
  CHECK(ladder.rungs.size() >= 8);
  for (const kernels::cuda::Rung& rung : ladder.rungs) {
    CAPTURE(rung.name);
    CHECK(rung.seconds > 0);
    CHECK(rung.error < (rung.fp32 ? 1e-5 : 1e-3));
  }
  CHECK_THROWS_AS(kernels::cuda::climb_ladder(300), Error);
}

TEST_CASE("CUDA: a profile holds every op of a step once, with or without fusions") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 3})
    for (const bool fuse : {true, false}) {
      tests::RandomProgram model(seed);
      tests::RandomProgram::Shape shape;
      shape.layers = 2;
      shape.experts = shape.used = experts;
      model.transformer(shape, Type::Q8_0, Type::Q6_K);
      tests::GpuOptions options;
      options.fuse = fuse;
      const auto executor = tests::make_cuda_executor(model.program, tests::fast_config(), options);
      const tests::Steps steps = tests::consecutive(model, 0, 1);
      std::vector<int32_t> ops;
      for (const core::OpTime& time : executor->profile(steps.batch(), 3)) {
        CHECK(time.seconds > 0);
        CHECK(time.waiting >= 0);
        CHECK(time.waiting <= time.seconds);
        CHECK(time.end_spread >= 0);
        CHECK(!time.ops.empty());
        ops.insert(ops.end(), time.ops.begin(), time.ops.end());
      }
      std::ranges::sort(ops);
      CHECK(std::ssize(ops) == std::ssize(model.program.ops));
      for (int32_t i = 0; i < static_cast<int32_t>(ops.size()); ++i) CHECK(ops[i] == i);
    }
}

TEST_CASE("CUDA: a profile of a step as it runs says how long its parts wait for their input") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const bool siblings : {false, true})
    for (const int64_t experts : {0, 9}) {
      CAPTURE(siblings);
      CAPTURE(experts);
      tests::RandomProgram model(seed);
      tests::RandomProgram::Shape shape;
      shape.layers = 12;
      shape.width = shape.hidden = 1024;
      shape.experts = experts;
      shape.used = experts ? 2 : 0;
      if (siblings) shape.value_type = Type::Q6_K;
      model.transformer(shape, Type::Q4_K, Type::Q6_K);
      const auto executor = tests::make_cuda_executor(model.program, tests::fast_config(), tests::GpuOptions{});
      const tests::Steps steps = tests::consecutive(model, 20, 1);
      double waiting = 0;
      size_t ops = 0;
      for (const core::OpTime& time : executor->profile(steps.batch(), 20)) {
        ops += time.ops.size();
        CHECK(time.seconds > 0);
        CHECK(time.waiting <= time.seconds);
        waiting += time.waiting;
      }
      CHECK(ops == model.program.ops.size());
      CHECK(waiting > 0);
    }
}
