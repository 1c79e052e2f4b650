// A session with a model whose layers have windows: whatever it goes back to, the logits are those of a session that
// never went on, and only what differs is evaluated again.
#include "support/recipe_session.h"

using namespace ridge;

TEST_CASE("a session of a model with windows goes back as any other, also further than a window") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gpt-oss-moe", "gemma3-dense", "gemma4-e2b"}) {
    CAPTURE(name);
    tests::RecipeSession model(name, 96);
    engine::Session& session = model.session;
    const auto check = [&](const std::vector<int32_t>& tokens, int64_t evaluated) {
      model.check(tokens, evaluated, 1e-6); // GELU rounds to f16
    };
    std::vector<int32_t> first;
    for (int i = 0; i < 50; ++i) first.push_back((i * 37 + 1) % 128);
    check(first, 50);
    core::Sampler sampler = model.greedy();
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
    tests::RecipeSession model(name, 40);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back((i * 41 + 3) % 128);
    REQUIRE(model.session.evaluate(tokens));
    // What a conversation does when it is full: the prompt is rendered again without its oldest turns.
    tokens.erase(tokens.begin() + 4, tokens.begin() + 20);
    model.check(tokens, 20, 1e-9);
  }
}
