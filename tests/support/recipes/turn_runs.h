// Recipes with more sequences than streams.
#pragma once

#include "support/recipes/prefix_runs.h"

#include <atomic>
#include <memory>

namespace ridge::tests {

// Sequences that lose their stream give the same answers as alone.
inline void check_turns(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  using namespace prefixes;
  const gguf::File file = Recipe(name).open();
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = 200;
  config.streams = 2;
  config.max_batch = 16;
  config.rewind_tokens = 8;
  config.max_outputs = config.threads = 2;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32; // no rounding that depends on batches
  const auto request = [&](uint64_t i) {
    engine::SequenceRequest of;
    of.prompt = some_tokens(i, 20 + 5 * static_cast<int64_t>(i), static_cast<int32_t>(program.vocab));
    of.sampling.temp = i % 2 ? 1.5f : 0.0f;
    of.sampling.seed = static_cast<int64_t>(i);
    of.sampling.repeat_penalty = 1.2f;
    of.limit = 30;
    of.keep_choices = i % 3 == 0;
    return of;
  };
  constexpr uint64_t kSequences = 6;
  std::vector<Tokens> alone;
  for (uint64_t i = 0; i < kSequences; ++i) {
    const auto executor = make(program, config);
    engine::Scheduler scheduler(*executor, program);
    alone.push_back(rest(*scheduler.submit(request(i))));
    REQUIRE(alone.back().size() == 30);
  }
  const auto executor = make(program, config);
  engine::Scheduler scheduler(
      *executor, program, nullptr, {.bytes = 1 << 28},
      {.seconds = 1, .patience = 1e9, .share = 1, .clock = [looks = std::make_shared<std::atomic<int>>(0)] {
         return static_cast<double>(++*looks); // each call is a turn later
       }});
  std::vector<std::shared_ptr<engine::Sequence>> sequences;
  for (uint64_t i = 0; i < kSequences; ++i) sequences.push_back(scheduler.submit(request(i)));
  for (uint64_t i = 0; i < kSequences; ++i) {
    CAPTURE(i);
    CHECK(rest(*sequences[i]) == alone[i]);
  }
  CHECK(scheduler.counts().preemptions >= 4);
}

} // namespace ridge::tests
