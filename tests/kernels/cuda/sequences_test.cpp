// The scheduler on the GPU: steps of several streams, pieces of prompts, and a sequence alone, whose tokens the GPU
// chooses.
#include "support/sequences.h"

#include "device.h"

using namespace ridge;

TEST_CASE("CUDA: a sequence's tokens are the same alone and among others") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::check_sequences(tests::make_executor, seed);
}
