// A session and an executor with a recipe's model.
#pragma once

#include "engine/sequences/session.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/http/requests.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace ridge::tests {

struct RecipeSession {
  // Less than the context gives ring buffers.
  RecipeSession(const std::string& name, int64_t context, int64_t rewind_tokens = 256)
      : file(Recipe(name).open()), config(exact_of(context, rewind_tokens)) {}

  void check(const std::vector<int32_t>& tokens, int64_t evaluated, double bound) {
    REQUIRE(session.evaluate(tokens));
    CHECK(session.prompt_usage().tokens == evaluated);
    engine::Session fresh(*other, program);
    REQUIRE(fresh.evaluate(tokens));
    CHECK(nmse(session.logits(), {fresh.logits().begin(), fresh.logits().end()}) <= bound);
  }

  void generate(int64_t count) {
    session.generate(request_of(std::vector(session.tokens().begin(), session.tokens().end()), count));
  }

  static core::ExecutorConfig exact_of(int64_t context, int64_t rewind_tokens) {
    core::ExecutorConfig config;
    config.context = context;
    config.rewind_tokens = rewind_tokens;
    config.max_batch = 8;
    config.threads = 2;
    config.exact = true;
    config.k_type = config.v_type = core::KvType::f32;
    return config;
  }

  const gguf::File file;
  const core::Program program = models::build_program(file);
  const core::ExecutorConfig config;
  const std::unique_ptr<core::Executor> executor = kernels::cpu::make_cpu_executor(program, config),
                                        other = kernels::cpu::make_cpu_executor(program, config);
  engine::Session session{*executor, program};
};

} // namespace ridge::tests
