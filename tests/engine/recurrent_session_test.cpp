// Going back must give a fresh session's logits and evaluate only tokens after the last state copy.
#include "support/recipes/recipe_session.h"

using namespace ridge;

TEST_CASE("a recurrent model's session goes back to its copies of the state") {
  REQUIRE_REFERENCE();
  tests::RecipeSession model("qwen35-dense", 128);
  engine::Session& session = model.session;
  const auto tokens_of = [](int count, int salt) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + salt) % 128);
    return tokens;
  };
  const auto check = [&](const std::vector<int32_t>& tokens, int64_t evaluated) {
    model.check(tokens, evaluated, 1e-9);
  };
  const std::vector<int32_t> first = tokens_of(30, 1);
  check(first, 30);
  model.generate(10);
  check(first, 1);
  model.generate(10);

  std::vector<int32_t> longer(session.tokens().begin(), session.tokens().end());
  const std::vector<int32_t> question = tokens_of(20, 5);
  longer.insert(longer.end(), question.begin(), question.end());
  check(longer, 21); // an answer's last token is not evaluated
  check(first, 1);
  std::vector<int32_t> edited = first;
  edited[10] ^= 1;
  check(edited, 30); // no copy is that old
}
