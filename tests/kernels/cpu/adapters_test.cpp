// LoRA adapters on one executor, two, and ranks.
#include "core/parallel/parallel_executor.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "support/adapter_runs.h"
#include "support/ranks.h"

using namespace ridge;

namespace {

std::unique_ptr<core::Executor> on_ranks(const core::Program& program, core::ExecutorConfig config) {
  config.threads = 1;
  return core::make_parallel_executor(tests::shards_of(program, 2), config, core::make_thread_communicators(2),
                                      [](const core::Program& own, const core::ExecutorConfig& own_config, int) {
                                        return kernels::cpu::make_cpu_executor(own, own_config);
                                      });
}

std::unique_ptr<core::Executor> on_two(const core::Program& program, const core::ExecutorConfig& config) {
  return core::make_split_executor(core::split_program(program, 1), config, kernels::cpu::make_cpu_executor,
                                   kernels::cpu::make_cpu_executor);
}

} // namespace

TEST_CASE("streams of a batch have adapters of their own, on one executor, two and ranks") {
  const uint64_t seed = tests::printed_seed();
  for (const tests::MakeExecutor& make : {tests::MakeExecutor(kernels::cpu::make_cpu_executor),
                                          tests::MakeExecutor(on_two), tests::MakeExecutor(on_ranks)}) {
    tests::check_adapters(make, tests::exact_config(), 1e-9, seed);
    tests::check_adapters(make, tests::fast_config(), 3.5e-4, seed);
  }
}

TEST_CASE("ranks share out a model with adapters as they do without") {
  std::mt19937_64 random(tests::printed_seed());
  for (const bool experts : {false, true}) {
    const tests::AdaptedModel model(experts, random);
    const auto bytes = [](const core::Program& program) {
      return tests::matrix_bytes(tests::shards_of(program, 2)[0].program) / tests::matrix_bytes(program);
    };
    CHECK(bytes(model.program) < bytes(model.plain) + 0.1); // A is whole, B is divided
  }
}
