// The scheduler on the GPU.
#include "support/recipes/prefix_runs.h"
#include "support/recipes/turn_runs.h"
#include "support/sequences.h"

#include "device.h"

using namespace ridge;

TEST_CASE("CUDA: a sequence's tokens are the same alone and among others") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::check_sequences(tests::make_executor, seed);
}

TEST_CASE("CUDA: models whose caches hold only windows share prompts, and say what they say alone") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const char* name : {"gemma3-dense", "gpt-oss-moe", "gemma4-e2b"})
    for (const int64_t streams : {1, 3}) tests::check_prefixes(tests::make_executor, name, streams);
}

TEST_CASE("CUDA: tiny models say the same preempted as alone") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-dense", "gemma3-dense", "qwen35-dense", "deepseek2-moe", "gpt-oss-moe"})
    tests::check_turns(tests::make_executor, name);
}
