// A session with a recurrent model: whatever it goes back to, the logits are those of a session that never went on, and
// only what follows the last copy of the state is evaluated again.
#include "core/error.h"
#include "engine/sequences/session.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipe.h"

#include <doctest/doctest.h>

using namespace ridge;

TEST_CASE("a recurrent model's session goes back to its copies of the state") {
  REQUIRE_REFERENCE();
  const gguf::File file = tests::Recipe("qwen35-dense").open();
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = 128;
  config.max_batch = 8;
  config.threads = 2;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  const auto executor = kernels::cpu::make_cpu_executor(program, config),
             other = kernels::cpu::make_cpu_executor(program, config);
  engine::Session session(*executor, program);
  const auto tokens_of = [](int count, int salt) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + salt) % 128);
    return tokens;
  };
  const auto check = [&](const std::vector<int32_t>& tokens, int64_t evaluated) {
    REQUIRE(session.evaluate(tokens));
    CHECK(session.prompt_usage().tokens == evaluated);
    engine::Session fresh(*other, program);
    REQUIRE(fresh.evaluate(tokens));
    CHECK(tests::nmse(session.logits(), {fresh.logits().begin(), fresh.logits().end()}) <= 1e-9);
  };
  const std::vector<int32_t> first = tokens_of(30, 1);
  check(first, 30);
  core::SamplerParams greedy;
  greedy.temp = 0;
  core::Sampler sampler(greedy, program.vocab);
  session.generate(sampler, {.limit = 10});
  check(first, 1); // once more: from before the prompt's last token
  session.generate(sampler, {.limit = 10});

  std::vector<int32_t> longer(session.tokens().begin(), session.tokens().end());
  const std::vector<int32_t> question = tokens_of(20, 5);
  longer.insert(longer.end(), question.begin(), question.end());
  check(longer, 21); // the last answer's last token was never evaluated
  check(first, 1);   // the second exchange is taken back
  std::vector<int32_t> edited = first;
  edited[10] ^= 1;
  check(edited, 30); // no copy is that old
}
