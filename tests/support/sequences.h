// Checks that sequences choose the same tokens alone and together.
#pragma once

#include "engine/sequences/scheduler.h"
#include "support/executor_runs.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace ridge::tests {

// Some prompts share a prefix. Comparison stops after a near-tie.
inline void check_alone_and_together(const MakeExecutor& make, RandomProgram& model) {
  core::ExecutorConfig config = exact_config();
  config.streams = 4;
  config.context = 128;
  config.max_batch = 24;
  config.max_outputs = 4;
  const int64_t vocab = model.program.vocab;
  std::vector<int32_t> common;
  for (int i = 0; i < 20; ++i) common.push_back(static_cast<int32_t>(model.integer(0, vocab - 1)));
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 12; ++i) {
    std::vector<int32_t> prompt;
    if (i % 3 == 0) prompt = common;
    for (int64_t n = model.integer(1, 60); n > 0; --n)
      prompt.push_back(static_cast<int32_t>(model.integer(0, vocab - 1)));
    prompts.push_back(prompt);
  }
  const auto request = [&](size_t i, bool keep_choices) {
    engine::SequenceRequest of;
    of.prompt = prompts[i];
    of.sampling.temp = 0;
    of.limit = 24;
    of.keep_choices = keep_choices;
    return of;
  };
  struct Chosen {
    int32_t token;
    float lead;
  };
  std::vector<std::vector<Chosen>> expected(prompts.size());
  {
    const auto executor = make(model.program, config);
    engine::Scheduler scheduler(*executor, model.program);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto sequence = scheduler.submit(request(i, true));
      while (const auto token = sequence->next())
        expected[i].push_back({token->id, token->choice->top[0].probability() - token->choice->top[1].probability()});
      REQUIRE(expected[i].size() == 24);
    }
  }
  config.rewind_tokens = 8;
  const auto executor = make(model.program, config);
  engine::Scheduler scheduler(*executor, model.program);
  std::vector<std::shared_ptr<engine::Sequence>> sequences;
  for (size_t i = 0; i < prompts.size(); ++i) sequences.push_back(scheduler.submit(request(i, false)));
  for (size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    bool same = true;
    for (size_t t = 0; const auto token = sequences[i]->next(); ++t) {
      CAPTURE(t);
      if (same && token->id != expected[i].at(t).token) {
        CHECK(expected[i][t].lead < 1e-4f);
        same = false;
      }
    }
    CHECK(sequences[i]->generated_tokens() == 24);
  }
}

inline void check_sequences(const MakeExecutor& make, uint64_t seed) {
  struct Kind {
    int64_t experts, window;
  };
  for (const Kind& kind : {Kind{0, 0}, {4, 0}, {0, 10}}) {
    const int64_t experts = kind.experts, window = kind.window;
    CAPTURE(experts);
    CAPTURE(window);
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.vocab = 300;
    shape.experts = experts;
    shape.used = 2;
    shape.attention.window = window;
    model.transformer(shape, quant::Type::Q8_0, quant::Type::Q8_0);
    check_alone_and_together(make, model);
  }
}

} // namespace ridge::tests
