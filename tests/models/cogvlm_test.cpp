// In a batch, pictures' rows take CogVLM's matrices of pictures, tokens those of texts.
#include "core/parallel/parallel_executor.h"
#include "kernels/cpu/executor/executor.h"
#include "support/ranks.h"
#include "support/recipes/cogvlm_runs.h"

using namespace ridge;

TEST_CASE("CogVLM's rows of pictures take matrices of their own, in batches with and without texts, also on ranks") {
  tests::check_cogvlm(tests::exact_config(), 1e-10, kernels::cpu::make_cpu_executor);
  tests::check_cogvlm(tests::fast_config(), 1e-3, kernels::cpu::make_cpu_executor);
  const auto on_ranks = [](const core::Program& program, core::ExecutorConfig config) {
    constexpr int kRanks = 2;
    config.threads = 1;
    return core::make_parallel_executor(tests::shards_of(program, kRanks), config,
                                        core::make_thread_communicators(kRanks),
                                        [](const core::Program& own, const core::ExecutorConfig& own_config, int) {
                                          return kernels::cpu::make_cpu_executor(own, own_config);
                                        });
  };
  tests::check_cogvlm(tests::exact_config(), 1e-10, on_ranks);
}
