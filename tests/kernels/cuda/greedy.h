// Decoding on the device.
#pragma once

#include "core/executor.h"
#include "core/sampler.h"

#include <doctest/doctest.h>

#include <numeric>
#include <span>
#include <vector>

namespace ridge::tests {

inline void begin_chain(core::Executor& executor, const core::Batch& batch, const core::Sampler& sampler) {
  REQUIRE(executor.can_chain(sampler.params()));
  const core::Sampler* const one = &sampler;
  executor.submit(batch, {.samplers = {&one, 1}, .chain = core::Chain::begin});
}

// The oldest token not taken. With `ahead` the last one chosen is evaluated, at `position`.
inline int32_t next_token(core::Executor& executor, int64_t position, bool ahead, int32_t stream = 0) {
  const auto at = static_cast<int32_t>(position), output = 0;
  if (ahead)
    executor.submit({{&core::kChosenToken, 1}, {&at, 1}, {&stream, 1}, {&output, 1}}, {.chain = core::Chain::resume});
  return executor.wait()[0];
}

// Tokens chosen after a known one and guesses, of which there are all but one.
inline std::span<const int32_t> verified(core::Executor& executor, std::span<const int32_t> tokens, int32_t position) {
  std::vector<int32_t> positions(tokens.size()), outputs(tokens.size());
  std::iota(positions.begin(), positions.end(), position);
  std::iota(outputs.begin(), outputs.end(), 0);
  executor.submit({tokens, positions, {}, outputs}, {.chain = core::Chain::resume, .guesses = std::ssize(tokens) - 1});
  return executor.wait();
}

inline std::vector<int32_t> greedy_tokens(core::Executor& executor, int64_t vocab, int32_t token, int32_t stream,
                                          int64_t count) {
  const int32_t zero = 0;
  core::SamplerParams greedy;
  greedy.temp = 0;
  begin_chain(executor, {{&token, 1}, {&zero, 1}, {&stream, 1}, {&zero, 1}}, core::Sampler(greedy, vocab));
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = next_token(executor, i + 1, i + 1 < count, stream);
  return tokens;
}

} // namespace ridge::tests
