// More indexed positions than threads.
#include "kernels/cuda/executor/executor.h"

#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

using namespace ridge;

TEST_CASE("CUDA: the positions that an indexer chooses are those of the definition, however many") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::check_sparse_attention(tests::make_executor, seed, 1e-8);
}
