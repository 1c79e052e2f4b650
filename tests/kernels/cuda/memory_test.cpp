// Planned GPU memory equals allocated bytes.
#include "device.h"
#include "greedy.h"
#include "kernels/cuda/exchange/exchange.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/ranks.h"
#include "support/recipes/recipe_runs.h"
#include "support/weightless_file.h"

#include "core/sampler.h"

using namespace ridge;
using kernels::cuda::MemoryPlan;

namespace {

// Sufficient to the byte. Weights are not read.
void check_room(const core::Program& program, const core::ExecutorConfig& config, bool experts_on_host) {
  CAPTURE(experts_on_host);
  tests::GpuOptions options;
  options.experts_on_host = experts_on_host;
  const MemoryPlan plan =
      kernels::cuda::plan_memory(program, config, kernels::cuda::limits_for_plans(), experts_on_host);
  if (static_cast<double>(plan.total()) > kernels::cuda::device_info().free_bytes) return;
  options.memory_limit = static_cast<double>(plan.total());
  CHECK(kernels::cuda::fits(program, config, options));
  options.memory_limit -= 1;
  CHECK_FALSE(kernels::cuda::fits(program, config, options));
}

void check_plan(const core::Program& program, const core::ExecutorConfig& config, bool experts_on_host) {
  CAPTURE(experts_on_host);
  tests::GpuOptions options;
  options.experts_on_host = experts_on_host;
  options.most_copies = 1;
  const kernels::cuda::DeviceLimits limits = kernels::cuda::limits_for_plans();
  const MemoryPlan plan = kernels::cuda::plan_memory(program, config, limits, experts_on_host);
  const auto executor = tests::make_cuda_executor(program, config, options);
  const MemoryPlan taken = kernels::cuda::allocated_memory(*executor);
  CHECK(taken.weights == plan.weights);
  CHECK(taken.cache == plan.cache);
  CHECK(taken.state == plan.state);
  CHECK(taken.scratch == plan.scratch);
  CHECK(taken.reserve == 0);
  check_room(program, config, experts_on_host);
}

} // namespace

TEST_CASE("CUDA: an executor allocates what was planned, for every recipe of the reference") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : tests::share_of(tests::known_recipes())) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = std::min<int64_t>(program.trained_context, 1000);
    config.max_batch = std::min<int64_t>(config.context, 300);
    config.streams = 3;
    for (const bool exact : {false, true}) {
      CAPTURE(exact);
      config.exact = exact;
      for (const bool experts_on_host : {false, true}) check_plan(program, config, experts_on_host);
    }
  }
}

TEST_CASE("CUDA: an executor allocates what was planned, whatever its heads, batches and caches") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t head_dim : {64, 128, 256, 512})
    for (const int64_t experts : {0, 12}) {
      CAPTURE(head_dim);
      CAPTURE(experts);
      tests::RandomProgram model(seed);
      tests::RandomProgram::Shape shape;
      shape.k_dim = shape.v_dim = head_dim;
      shape.experts = experts;
      shape.used = experts > 0 ? 3 : 0;
      model.transformer(shape, quant::Type::Q4_K, quant::Type::Q6_K);
      for (const int64_t batch : {1, 96, 97, 700})
        for (const core::KvType type : {core::KvType::f16, core::KvType::q8_0, core::KvType::q5_1}) {
          CAPTURE(batch);
          core::ExecutorConfig config;
          config.context = 5000;
          config.max_batch = batch;
          config.k_type = config.v_type = type;
          check_plan(model.program, config, experts > 0);
        }
    }
}

TEST_CASE("CUDA: an executor allocates what was planned, for every shape of bench that the GPU has room for") {
  REQUIRE_DEVICE();
  for (const models::Shape& shape : tests::share_of(models::shapes())) {
    CAPTURE(shape.name);
    const tests::TemporaryFolder folder;
    models::Shape without_heads = shape;
    without_heads.draft_layers = 0;
    const gguf::File file = tests::weightless_file(
        folder, without_heads, std::string_view(shape.name).starts_with("gpt-oss") ? "MXFP4" : "Q4_K_M");
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = std::min<int64_t>(program.trained_context, 8192);
    config.max_outputs = 1;
    for (const int64_t batch : {512, 2048}) {
      CAPTURE(batch);
      config.max_batch = batch;
      for (const bool experts_on_host : {false, true}) check_room(program, config, experts_on_host);
    }
  }
}

TEST_CASE("CUDA: a rank of two allocates what was planned, but for what GPUs exchange by, which is no executor's") {
  REQUIRE_REFERENCE();
  REQUIRE_DEVICE();
  for (const char* name : {"llama-dense", "qwen35-dense", "qwen3next-moe", "granitehybrid-dense"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::ExecutorConfig config = tests::fast_config();
    for (const core::Shard& shard : tests::shards_of(models::build_program(file), 2)) {
      const MemoryPlan plan = kernels::cuda::plan_memory(shard.program, config, kernels::cuda::limits_for_plans());
      const auto executor = tests::make_cuda_executor(shard.program, config);
      const MemoryPlan taken = kernels::cuda::allocated_memory(*executor);
      const int64_t exchanged = kernels::cuda::max_exchanged_floats(shard.program, config);
      REQUIRE(exchanged > 0);
      CHECK(taken.weights == plan.weights);
      CHECK(taken.cache == plan.cache);
      CHECK(taken.state == plan.state);
      CHECK(taken.scratch + static_cast<int64_t>(kernels::cuda::mailbox_layout(2, exchanged).bytes()) == plan.scratch);
    }
  }
}

TEST_CASE("CUDA: what an executor takes later has room in what it leaves free") {
  REQUIRE_DEVICE();
  tests::RandomProgram model(1);
  model.transformer({}, quant::Type::F16, quant::Type::F16);
  core::ExecutorConfig config = tests::fast_config();
  config.streams = 4;
  const auto executor = tests::make_cuda_executor(model.program, config);
  const MemoryPlan before = kernels::cuda::allocated_memory(*executor);
  tests::greedy_tokens(*executor, model.program.vocab, 1, 0, 20);
  const core::Sampler sampler({}, model.program.vocab);
  const std::vector<int32_t> tokens = {1, 2, 3, 4}, positions = {0, 0, 0, 0}, streams = {0, 1, 2, 3}, outputs = streams;
  const std::vector<const core::Sampler*> samplers(4, &sampler);
  executor->submit({tokens, positions, streams, outputs}, {.samplers = samplers});
  executor->wait();
  const MemoryPlan after = kernels::cuda::allocated_memory(*executor);
  CHECK(after.total() - after.reserve == before.total());
  CHECK(after.reserve > 0);
  CHECK(after.reserve < kernels::cuda::reserve_bytes(model.program, config) / 2);
}
