// Programs split between CPU and GPU.
#include "core/stages/split.h"

#include "convert/requantize.h"
#include "device.h"
#include "gguf/gguf.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "models/model.h"
#include "support/executor_runs.h"
#include "support/recipes/ring_runs.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

using namespace ridge;
using quant::Type;
using tests::RandomProgram;

namespace {

tests::MakeExecutor cut_before(int32_t layer) {
  return [layer](const core::Program& program, const core::ExecutorConfig& config) {
    return core::make_split_executor(core::split_program(program, layer), config, kernels::cpu::make_cpu_executor,
                                     [](const core::Program& part, const core::ExecutorConfig& config) {
                                       return tests::make_cuda_executor(part, config);
                                     });
  };
}

tests::MakeExecutor in_stages(int stages) {
  return [stages](const core::Program& program, const core::ExecutorConfig& config) {
    return core::make_pipeline_executor(program, config, stages,
                                        [](const core::Program& part, const core::ExecutorConfig& config, int stage) {
                                          tests::GpuOptions options;
                                          options.device = stage % kernels::cuda::device_count();
                                          return tests::make_cuda_executor(part, config, options);
                                        });
  };
}

void check_is_model(const tests::MakeExecutor& make) {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 3}) {
    CAPTURE(experts);
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.layers = 3;
    shape.experts = shape.used = experts;
    model.transformer(shape, Type::Q8_0, Type::Q6_K);
    CHECK(tests::worst_error(make, model, tests::exact_config(), {9, 1, 1, 20, 2, 1}) < 1e-8);
    CHECK(tests::worst_error(make, model, tests::fast_config(), {9, 1, 1, 20, 2, 1}) < 1e-2);
    CHECK(tests::worst_error_of_streams(make, model, tests::exact_config()) < 1e-8);
  }
}

} // namespace

TEST_CASE("CUDA: a model split between CPU and GPU is the model, wherever it is cut") {
  REQUIRE_DEVICE();
  for (const int32_t layer : {1, 2, 3}) {
    CAPTURE(layer);
    check_is_model(cut_before(layer));
  }
}

TEST_CASE("CUDA: a model in stages, each on a GPU, is the model") {
  REQUIRE_DEVICE();
  for (const int stages : {2, 3, 4}) {
    CAPTURE(stages);
    check_is_model(in_stages(stages));
  }
}

TEST_CASE("CUDA: models with windows that are split go back, each part with windows of its own") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const char* name : {"gemma3-dense-deep", "gpt-oss-moe-deep"}) CHECK(tests::check_rings(cut_before(1), name));
}

TEST_CASE("CUDA: a model in several files runs with any number of its layers on the GPU") {
  REQUIRE_DEVICE();
  const tests::TemporaryFolder folder;
  tests::TinyModel{.layers = 3}.write(folder / "whole.gguf");
  const gguf::File whole = gguf::File::open(folder / "whole.gguf");
  const std::vector<std::string> paths = convert::write(
      convert::plan_requantization(whole, nullptr, {}, nullptr), {folder / "parts.gguf", 40000}, nullptr,
      convert::encode_on_cpu, nullptr, [](const convert::TensorResult&) {}, nullptr);
  REQUIRE(paths.size() > 3);
  const gguf::File file = gguf::File::open(paths[1]);
  const core::Program program = models::build_program(file), reference = models::build_program(whole);
  const std::vector<int32_t> tokens = {1, 70, 300, 5, 299}, positions = {0, 1, 2, 3, 4}, outputs = {0, 2, 4};
  const auto logits = [&](core::Executor& executor) {
    executor.forward({tokens, positions, {}, outputs});
    std::vector<float> all;
    for (int64_t i = 0; i < std::ssize(outputs); ++i) {
      const std::span<const float> row = executor.logits(i);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  };
  const std::vector<float> expected = logits(*kernels::cpu::make_cpu_executor(reference, tests::exact_config()));
  for (const int32_t layer : {1, 2, 3}) {
    CAPTURE(layer);
    CHECK(tests::nmse(logits(*cut_before(layer)(program, tests::exact_config())), expected) < 1e-8);
  }
  CHECK(tests::nmse(logits(*tests::make_cuda_executor(program, tests::exact_config())), expected) < 1e-8);
}

TEST_CASE("CUDA: what does not fit is known before anything is copied, and the message has the numbers") {
  REQUIRE_DEVICE();
  RandomProgram model(1);
  model.transformer({}, Type::F32, Type::F32);
  core::ExecutorConfig config = tests::fast_config();
  CHECK(kernels::cuda::fits(model.program, config));
  config.context = int64_t{1} << 30;
  config.streams = 2;
  CHECK_FALSE(kernels::cuda::fits(model.program, config));
  try {
    tests::make_cuda_executor(model.program, config);
    FAIL("2 TiB were found");
  } catch (const kernels::cuda::OutOfMemory& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find("the KV cache needs 2048.00 GiB") != std::string::npos);
    CHECK(message.ends_with("GiB are free"));
  }
  CHECK(kernels::cuda::fits(model.program, tests::fast_config()));
}
