// Going back with windowed layers must give a fresh session's results and evaluate only new tokens.
#include "engine/guess_runs.h"
#include "engine/sequences/scheduler.h"
#include "support/recipes/prefix_runs.h"
#include "support/recipes/recipe_session.h"

using namespace ridge;

namespace {

std::vector<int32_t> made_text(int tokens) {
  std::vector<int32_t> text;
  for (int i = 0; i < tokens; ++i) text.push_back((i * 37 + 1) % 128);
  return text;
}

auto checker(tests::RecipeSession& model) {
  return [&model](const std::vector<int32_t>& tokens, int64_t evaluated) {
    model.check(tokens, evaluated, 1e-6); // GELU rounds to f16
  };
}

} // namespace

TEST_CASE("a session of a model with windows goes back as any other, also further than a window") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense", "gemma4-e2b"}) {
    CAPTURE(name);
    tests::RecipeSession model(name, 96);
    const auto check = checker(model);
    const std::vector<int32_t> first = made_text(50);
    check(first, 50);
    model.generate(30);
    check(first, 1);
    model.generate(10);
    std::vector<int32_t> edited = first;
    edited[5] ^= 1;
    check(edited, 45); // beyond any window
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
    tests::RecipeSession model(name, 40);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back((i * 41 + 3) % 128);
    REQUIRE(model.session.evaluate(tokens));
    // Context shift.
    tokens.erase(tokens.begin() + 4, tokens.begin() + 20);
    model.check(tokens, 20, 1e-9);
  }
}

TEST_CASE("a session whose caches hold only windows goes back a little at once, and further to a copy") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense", "gemma4-e2b"}) {
    CAPTURE(name);
    tests::RecipeSession model(name, 400, 16);
    engine::Session& session = model.session;
    REQUIRE(model.executor->saved_floats() > 0);
    const auto check = checker(model);
    const std::vector<int32_t> first = made_text(100);
    check(first, 100);
    model.generate(12);
    check(first, 1);
    model.generate(100);
    std::vector<int32_t> longer(session.tokens().begin(), session.tokens().end());
    check(first, 1);
    check(longer, 100);
    longer.insert(longer.end(), first.begin(), first.end());
    check(longer, 100);
    longer.resize(205);
    check(longer, 6);
    longer[50] ^= 1;
    check(longer, 205); // no copy is that old
    longer.push_back(1);
    check(longer, 1);
  }
}

TEST_CASE("guesses that were wrong are taken back within what windows keep") {
  REQUIRE_REFERENCE();
  std::vector<int32_t> prompt;
  for (int i = 0; i < 60; ++i) prompt.push_back((i * 31 + 7) % 128);
  core::SamplerParams greedy;
  greedy.temp = 0;
  for (const char* name : {"gpt-oss-moe", "gemma3-dense"}) {
    CAPTURE(name);
    tests::check_guesses(kernels::cpu::make_cpu_executor, tests::Recipe(name).open(), prompt, greedy, 200, {1, 4, 15},
                         0);
  }
}

TEST_CASE("a stream goes on behind what another one has read, from a copy where its windows have lost that") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense", "gemma4-e2b"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config = tests::RecipeSession::exact_of(400, 16);
    config.streams = 2;
    const auto executor = kernels::cpu::make_cpu_executor(program, config);
    engine::Scheduler scheduler(*executor, program);
    const auto submit = [&](const std::vector<int32_t>& prompt, int64_t limit) {
      return tests::prefixes::submit(scheduler, prompt, limit);
    };
    std::vector<int32_t> prompt = made_text(100);
    const auto first = submit(prompt, 250);
    for (int i = 0; i < 120; ++i) REQUIRE(first->next());
    prompt.insert(prompt.end(), {5, 6, 7, 8});
    const auto second = submit(prompt, 20);
    std::vector<int32_t> tokens = prompt;
    while (const auto token = second->next()) tokens.push_back(token->id);
    CHECK(scheduler.counts().cached_tokens == 99);
    scheduler.drain();

    config.rewind_tokens = config.context;
    const auto whole = kernels::cpu::make_cpu_executor(program, config);
    core::SamplerParams greedy;
    greedy.temp = 0;
    CHECK(tokens == tests::generated(*whole, program, prompt, greedy, 20));
  }
}
