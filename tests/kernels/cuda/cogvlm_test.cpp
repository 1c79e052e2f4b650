// CogVLM's pairs of matrices on the GPU: those of attention are experts, too.
#include "device.h"
#include "support/recipes/cogvlm_runs.h"

using namespace ridge;

TEST_CASE("CUDA: CogVLM's rows of pictures take matrices of their own, in batches with and without texts") {
  REQUIRE_DEVICE();
  tests::check_cogvlm(tests::exact_config(), 1e-8, tests::make_executor);
  tests::check_cogvlm(tests::fast_config(), 1e-3, tests::make_executor);
}
