// Prompts with common prefixes, on windowed recipes.
#pragma once

#include "engine/sequences/scheduler.h"
#include "models/model.h"
#include "support/executor_runs.h"
#include "support/recipes/recipe.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {
namespace prefixes {

using Tokens = std::vector<int32_t>;

inline Tokens some_tokens(uint64_t seed, int64_t count, int32_t vocab = 101) {
  std::mt19937_64 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab);
  return tokens;
}

inline Tokens joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

inline std::shared_ptr<engine::Sequence> submit(engine::Scheduler& scheduler, const Tokens& prompt, int64_t limit = 4) {
  engine::SequenceRequest request;
  request.prompt = prompt;
  request.sampling.temp = 0;
  request.limit = limit;
  return scheduler.submit(std::move(request));
}

inline Tokens rest(engine::Sequence& sequence) {
  Tokens tokens;
  while (const auto token = sequence.next()) tokens.push_back(token->id);
  return tokens;
}

// Each conversation continues; two are edited in the middle.
inline std::vector<Tokens> conversations(int32_t vocab) {
  const Tokens system = some_tokens(1, 150, vocab);
  std::vector<Tokens> prompts;
  for (uint64_t i = 0; i < 4; ++i) prompts.push_back(joined(system, some_tokens(10 + i, 40, vocab)));
  for (uint64_t i = 0; i < 4; ++i) prompts.push_back(joined(prompts[i], some_tokens(20 + i, 40, vocab)));
  for (uint64_t i = 0; i < 2; ++i) {
    prompts.push_back(prompts[4 + i]);
    prompts.back()[190 + i] ^= 1;
  }
  return prompts;
}

} // namespace prefixes

// In exact mode with ring buffers: answers equal those alone, and common tokens are evaluated once.
inline void check_prefixes(const MakeExecutor& make, const std::string& name, int64_t streams) {
  CAPTURE(name);
  CAPTURE(streams);
  using namespace prefixes;
  const gguf::File file = Recipe(name).open();
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = 400;
  config.streams = streams;
  config.max_batch = 16;
  config.rewind_tokens = 8;
  config.max_outputs = config.threads = 3;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32; // no rounding that depends on batches
  const std::vector<Tokens> prompts = conversations(static_cast<int32_t>(program.vocab));
  std::vector<Tokens> alone;
  for (const Tokens& prompt : prompts) {
    const auto executor = make(program, config);
    REQUIRE(executor->saved_floats() > 0);
    CHECK(executor->block_layout().find(" without ") != std::string::npos);
    engine::Scheduler scheduler(*executor, program);
    alone.push_back(rest(*submit(scheduler, prompt, 40)));
  }
  const TemporaryFolder folder;
  for (const bool again : {false, true}) {
    CAPTURE(again);
    const auto executor = make(program, config);
    engine::Scheduler scheduler(*executor, program, nullptr, {1 << 28, folder.path(), 1 << 28, name});
    std::vector<std::shared_ptr<engine::Sequence>> answers;
    for (size_t i = 0; i < prompts.size(); ++i) {
      answers.push_back(submit(scheduler, prompts[i], 40));
      if (i % 2 == 0) CHECK(rest(*answers.back()) == alone[i]);
    }
    for (size_t i = 1; i < prompts.size(); i += 2) CHECK(rest(*answers[i]) == alone[i]);
    scheduler.drain();
    const engine::Scheduler::Counts counts = scheduler.counts();
    CHECK(counts.cached_tokens >= 7 * 150);
    CHECK((counts.disk_tokens > 0) == again);
  }
}

} // namespace ridge::tests
