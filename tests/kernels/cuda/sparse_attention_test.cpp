// Attention to positions that an indexer chooses, over more of them than a block of threads has.
#include "kernels/cuda/executor/executor.h"

#include "device.h"
#include "support/executor_runs.h"

using namespace ridge;

TEST_CASE("CUDA: the positions that an indexer chooses are those of the definition, however many") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
    return kernels::cuda::make_cuda_executor(program, config);
  };
  for (const int64_t most : {6, 19, 259, 402})
    for (const int64_t span : {1, 4, 5})
      for (const bool ties : {false, true}) {
        CAPTURE(most);
        CAPTURE(span);
        CAPTURE(ties);
        CHECK(tests::worst_sparse_error(make, seed, most, span, ties) < 1e-8);
      }
}
