// LoRA adapters and device-side sampling.
#include "device.h"
#include "greedy.h"
#include "support/adapter_runs.h"

using namespace ridge;

TEST_CASE("CUDA: streams of a batch have adapters of their own") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::printed_seed();
  tests::check_adapters(tests::make_executor, tests::exact_config(), 1e-9, seed);
  tests::check_adapters(tests::make_executor, tests::fast_config(), 1e-4, seed);
}

TEST_CASE("CUDA: decoding goes on with the adapters of its stream") {
  REQUIRE_DEVICE();
  std::mt19937_64 random(tests::printed_seed());
  const tests::AdaptedModel model(false, random);
  core::ExecutorConfig config = tests::exact_config();
  config.streams = 4;
  const auto executor = tests::make_executor(model.program, config),
             stepped = tests::make_executor(model.program, config);
  for (int32_t stream = 0; stream < 4; ++stream) {
    CAPTURE(stream);
    const auto uses = tests::different_uses()[stream];
    executor->set_adapters(stream, uses);
    stepped->set_adapters(stream, uses);
    const std::vector<int32_t> chosen = tests::greedy_tokens(*executor, model.program.vocab, 5, stream, 12);
    int32_t token = 5;
    for (int32_t position = 0; position < 12; ++position) {
      const int32_t zero = 0;
      stepped->forward({{&token, 1}, {&position, 1}, {&stream, 1}, {&zero, 1}});
      const std::span<const float> logits = stepped->logits(0);
      CHECK(logits[chosen[position]] >= *std::ranges::max_element(logits) - 1e-4f);
      token = chosen[position];
    }
  }
}
