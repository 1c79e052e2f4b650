// A session with a model whose layers have windows: whatever it goes back to, the logits are those of a session that
// never went on, and only what differs is evaluated again.
#include "engine/sequences/session.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipe.h"

#include <doctest/doctest.h>

using namespace ridge;

TEST_CASE("a session of a model with windows goes back as any other, also further than a window") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense", "gemma4-e2b"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = 96;
    config.max_batch = 8;
    config.threads = 2;
    config.exact = true;
    config.k_type = config.v_type = core::KvType::f32;
    const auto executor = kernels::cpu::make_cpu_executor(program, config),
               other = kernels::cpu::make_cpu_executor(program, config);
    engine::Session session(*executor, program);
    const auto check = [&](const std::vector<int32_t>& tokens, int64_t evaluated) {
      REQUIRE(session.evaluate(tokens));
      CHECK(session.prompt_usage().tokens == evaluated);
      engine::Session fresh(*other, program);
      REQUIRE(fresh.evaluate(tokens));
      CHECK(tests::nmse(session.logits(), {fresh.logits().begin(), fresh.logits().end()}) <=
            1e-6); // GELU rounds to f16
    };
    std::vector<int32_t> first;
    for (int i = 0; i < 50; ++i) first.push_back((i * 37 + 1) % 128);
    check(first, 50);
    core::SamplerParams greedy;
    greedy.temp = 0;
    core::Sampler sampler(greedy, program.vocab);
    session.generate(sampler, {.limit = 30});
    check(first, 1); // the answer is taken back, and another one given
    session.generate(sampler, {.limit = 10});
    std::vector<int32_t> edited = first;
    edited[5] ^= 1;
    check(edited, 45); // further back than any window
    edited.resize(20);
    check(edited, 1);
    edited.insert(edited.end(), first.begin(), first.end());
    check(edited, 50);
  }
}

TEST_CASE("a full context goes on without its oldest tokens, as a session that never saw them") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = 40;
    config.max_batch = 8;
    config.threads = 2;
    config.exact = true;
    config.k_type = config.v_type = core::KvType::f32;
    const auto executor = kernels::cpu::make_cpu_executor(program, config);
    engine::Session session(*executor, program);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back((i * 41 + 3) % 128);
    REQUIRE(session.evaluate(tokens));
    // What a conversation does when it is full: the prompt is rendered again without its oldest turns.
    tokens.erase(tokens.begin() + 4, tokens.begin() + 20);
    REQUIRE(session.evaluate(tokens));
    CHECK(session.prompt_usage().tokens == 20);
    const std::vector<float> shifted(session.logits().begin(), session.logits().end());
    const auto other = kernels::cpu::make_cpu_executor(program, config);
    engine::Session fresh(*other, program);
    REQUIRE(fresh.evaluate(tokens));
    CHECK(tests::nmse(shifted, {fresh.logits().begin(), fresh.logits().end()}) <= 1e-9);
  }
}
