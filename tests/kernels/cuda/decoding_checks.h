// Checks of GPU decoding shared by tests.
#pragma once

#include "kernels/cuda/device.h"

#include "support/executor_runs.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ridge::tests {

// Four steps of streams with 0, 1, some and `longest` tokens: within `most_error` of naive.h, and as near to unfused
// kernels, but never further than where last bits decide between a cache's codes.
inline void check_streams(RandomProgram& model, int32_t longest, core::KvType k_type, core::KvType v_type,
                          double most_error) {
  core::ExecutorConfig config = exact_config();
  config.context = config.max_batch = config.max_outputs = longest + 20;
  config.streams = 4;
  config.k_type = k_type;
  config.v_type = v_type;
  tests::GpuOptions unfused;
  unfused.fuse = false;
  const auto fused = tests::make_cuda_executor(model.program, config),
             plain = tests::make_cuda_executor(model.program, config, unfused);
  Naive naive(model.program, k_type, v_type);
  std::vector<int32_t> next = {0, 1, static_cast<int32_t>(model.integer(2, 64)), longest};
  for (int32_t stream = 1; stream < 4; ++stream) {
    const Steps prefix = consecutive(model, 0, next[stream], stream);
    run(*fused, prefix);
    run(*plain, prefix);
    naive.forward(prefix.batch());
  }
  for (int round = 0; round < 4; ++round) {
    Steps steps;
    for (const int32_t stream : {2, 0, 3, 1}) {
      steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
      steps.streams.push_back(stream);
      steps.positions.push_back(next[stream]++);
      steps.outputs.push_back(static_cast<int32_t>(steps.outputs.size()));
    }
    const std::vector<float> together = run(*fused, steps);
    CHECK(nmse(together, run(*plain, steps)) < std::min(most_error, 1e-3));
    CHECK(nmse(together, naive.forward(steps.batch())) < most_error);
  }
}

// After two prompts of `prompt` tokens.
inline bool gives_the_same_twice(RandomProgram& model, const core::ExecutorConfig& config, int32_t prompt) {
  const auto executor = tests::make_cuda_executor(model.program, config);
  run(*executor, consecutive(model, 0, prompt));
  run(*executor, consecutive(model, prompt, prompt));
  const Steps last = consecutive(model, 2 * prompt, 1);
  const std::vector<float> once = run(*executor, last);
  return once == run(*executor, last);
}

} // namespace ridge::tests
