// Compares executors with naive.h.
#pragma once

#include "core/error.h"
#include "core/executor.h"
#include "support/naive.h"
#include "support/numerics.h"
#include "support/op_programs.h"
#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ridge::tests {

using MakeExecutor = std::function<std::unique_ptr<core::Executor>(const core::Program&, const core::ExecutorConfig&)>;

struct Steps {
  std::vector<int32_t> tokens, positions, streams, outputs;
  core::Batch batch() const { return {tokens, positions, streams, outputs}; }
};

inline Steps consecutive(RandomProgram& model, int32_t first, int32_t count, int32_t stream = 0) {
  Steps steps;
  for (int32_t i = 0; i < count; ++i) {
    steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
    steps.positions.push_back(first + i);
    steps.streams.push_back(stream);
    steps.outputs.push_back(i);
  }
  return steps;
}

inline core::ExecutorConfig exact_config() {
  core::ExecutorConfig config;
  config.context = 64;
  config.max_batch = 64;
  config.k_type = config.v_type = core::KvType::f32;
  config.threads = 2;
  config.exact = true;
  return config;
}
inline core::ExecutorConfig fast_config() {
  core::ExecutorConfig config = exact_config();
  config.k_type = config.v_type = core::KvType::f16;
  config.exact = false;
  return config;
}

inline std::vector<float> run(core::Executor& executor, const Steps& steps) {
  executor.forward(steps.batch());
  std::vector<float> all;
  for (size_t i = 0; i < steps.outputs.size(); ++i) {
    const std::span<const float> row = executor.logits(static_cast<int64_t>(i));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

inline double worst_error(const MakeExecutor& make_executor, RandomProgram& model, const core::ExecutorConfig& config,
                          const std::vector<int32_t>& sizes) {
  const auto executor = make_executor(model.program, config);
  Naive naive(model.program, config.k_type, config.v_type);
  WorstError worst;
  int32_t position = 0;
  for (int32_t size : sizes) {
    const Steps steps = consecutive(model, position, size);
    position += size;
    worst.add(run(*executor, steps), naive.forward(steps.batch()));
  }
  return worst.nmse();
}

// Checks Program::hidden for each sum and norm.
inline void check_hidden_rows(const MakeExecutor& make_executor, RandomProgram& model,
                              const core::ExecutorConfig& config, double bound) {
  for (const core::Op& op : model.program.ops) {
    if (op.kind != core::OpKind::add && op.kind != core::OpKind::rms_norm) continue;
    CAPTURE(op.name);
    core::Program program = model.program;
    program.hidden = op.outputs[0];
    const auto executor = make_executor(program, config);
    CHECK(executor->hidden().empty());
    Naive naive(program, config.k_type, config.v_type);
    int32_t position = 0;
    for (const int32_t size : {1, 5, 2}) {
      Steps steps = consecutive(model, position, size);
      position += size;
      steps.outputs.resize(static_cast<size_t>(size + 1) / 2);
      executor->forward(steps.batch());
      naive.forward(steps.batch());
      std::vector<float> expected;
      for (const Naive::Row& row : naive.value(program.hidden)) expected.insert(expected.end(), row.begin(), row.end());
      const std::span<const float> rows = executor->hidden();
      REQUIRE(rows.size() == expected.size());
      CHECK(nmse({rows.begin(), rows.end()}, expected) <= bound);
    }
  }
}

// Two streams of at least 170 positions. Shorter texts must not see remains of longer ones.
inline double worst_text_error(core::Executor& executor, RandomProgram& model) {
  WorstError worst;
  for (const int32_t tokens : {170, 3, 1, 40}) {
    Naive naive(model.program, executor.config().k_type, executor.config().v_type);
    Steps steps = consecutive(model, 0, tokens);
    const Steps other = consecutive(model, 0, 9, 1);
    for (size_t i = 0; i < 9; ++i) {
      steps.tokens.push_back(other.tokens[i]);
      steps.positions.push_back(other.positions[i]);
      steps.streams.push_back(1);
      steps.outputs.push_back(tokens + static_cast<int32_t>(i));
    }
    worst.add(run(executor, steps), naive.forward(steps.batch()));
  }
  return worst.nmse();
}

// In one batch and token by token.
inline void check_sparse_attention(const MakeExecutor& make_executor, uint64_t seed, double bound) {
  core::ExecutorConfig config = exact_config();
  config.context = config.max_batch = config.max_outputs = 700;
  for (const int64_t most : {6, 19, 259, 402})
    for (const int64_t span : {1, 4, 5})
      for (const bool ties : {false, true}) {
        CAPTURE(most);
        CAPTURE(span);
        CAPTURE(ties);
        RandomProgram model(seed);
        build_sparse_attention(model, most, span, ties, config.context);
        CHECK(worst_error(make_executor, model, config, {1, 299, 1, 1, 2, 300, 1, 13}) < bound);
      }
}

inline double worst_error_of_streams(const MakeExecutor& make_executor, RandomProgram& model,
                                     core::ExecutorConfig config) {
  config.streams = 3;
  const auto together = make_executor(model.program, config);
  Naive naive(model.program, config.k_type, config.v_type);
  std::vector<int32_t> next(3, 0);
  WorstError worst;
  for (int round = 0; round < 4; ++round) {
    Steps steps;
    for (int i = 0; i < 12; ++i) {
      const auto stream = static_cast<int32_t>(model.integer(0, 2));
      steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
      steps.streams.push_back(stream);
      steps.positions.push_back(next[stream]++);
      if (model.integer(0, 1)) steps.outputs.push_back(i);
    }
    worst.add(run(*together, steps), naive.forward(steps.batch()));
  }
  return worst.nmse();
}

inline double worst_error_of_rings(const MakeExecutor& make_executor, RandomProgram& model,
                                   core::ExecutorConfig config) {
  config.streams = 2;
  const auto executor = make_executor(model.program, config);
  Naive naive(model.program, config.k_type, config.v_type);
  std::vector<int32_t> next(2, 0);
  WorstError worst;
  const auto check = [&](const Steps& steps) {
    for (size_t i = 0; i < steps.tokens.size(); ++i) next[steps.streams[i]] = steps.positions[i] + 1;
    worst.add(run(*executor, steps), naive.forward(steps.batch()));
  };
  constexpr int kTogether = 3;
  while (std::max(next[0], next[1]) + config.max_batch + kTogether <= config.context) {
    for (const int32_t stream : {0, 1})
      check(consecutive(model, next[stream], static_cast<int32_t>(model.integer(1, config.max_batch)), stream));
    for (int i = 0; i < kTogether; ++i) {
      Steps both = consecutive(model, next[1], 1, 1);
      const Steps other = consecutive(model, next[0], 1, 0);
      both.tokens.push_back(other.tokens[0]);
      both.positions.push_back(next[0]);
      both.streams.push_back(0);
      both.outputs.push_back(1);
      check(both);
    }
    for (int32_t& at : next) at -= static_cast<int32_t>(std::min<int64_t>(at, model.integer(0, config.rewind_tokens)));
  }
  return worst.nmse();
}

// Compares a rewound stream with one that never continued.
inline bool matches_after_rewind(const MakeExecutor& make_executor, RandomProgram& model) {
  const Steps prefix = consecutive(model, 0, 10), first = consecutive(model, 10, 30),
              second = consecutive(model, 10, 5);
  const auto rewound = make_executor(model.program, exact_config());
  run(*rewound, prefix);
  run(*rewound, first);
  const std::vector<float> after = run(*rewound, second);
  const auto fresh = make_executor(model.program, exact_config());
  run(*fresh, prefix);
  return after == run(*fresh, second);
}

// NaN and infinity must not reduce the number of logits.
inline void check_broken_weights(const MakeExecutor& make_executor, uint64_t seed, quant::Type type, int64_t experts) {
  RandomProgram model(seed);
  RandomProgram::Shape shape; // small: drawing sane weights is slow
  shape.layers = 1;
  shape.kv_heads = 1;
  shape.hidden = shape.width;
  shape.vocab = 16;
  shape.experts = experts;
  shape.used = 2;
  model.transformer(shape, type, type);
  for (auto& data : model.storage)
    for (size_t at = 0; at < data.size(); at += 8) {
      const uint64_t bits = model.random() | (model.random() & 0x7c7c7c7c7c7c7c7c);
      std::memcpy(data.data() + at, &bits, std::min<size_t>(8, data.size() - at));
    }
  for (const core::ExecutorConfig& config : {exact_config(), fast_config()}) {
    const auto executor = make_executor(model.program, config);
    run(*executor, consecutive(model, 0, 6));
    CHECK(run(*executor, consecutive(model, 6, 1)).size() == static_cast<size_t>(model.program.vocab));
  }
}

// Checks that executors apply check_batch and check_config.
inline void check_refusals(const MakeExecutor& make_executor) {
  RandomProgram model(1);
  model.transformer({}, quant::Type::F32, quant::Type::F32);
  core::ExecutorConfig config = exact_config();
  const auto executor = make_executor(model.program, config);
  CHECK_THROWS_AS(executor->forward(Steps{{64}, {0}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{-1}, {0}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{1}, {64}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{1}, {0}, {1}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{1}, {0}, {0}, {1}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{1}, {}, {0}, {0}}.batch()), Error);
  CHECK_THROWS_AS(executor->forward(Steps{{}, {}, {}, {}}.batch()), Error);
  executor->forward(Steps{{1}, {63}, {0}, {0}}.batch());
  CHECK_THROWS_AS(executor->logits(1), std::logic_error);
  config.context = 0;
  CHECK_THROWS_AS(make_executor(model.program, config), Error);
}

} // namespace ridge::tests
