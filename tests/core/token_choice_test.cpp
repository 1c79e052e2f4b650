#include "core/token_choice.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace ridge::core;

TEST_CASE("the likeliest tokens come in order, with the softmax of all") {
  const std::vector<float> logits = {1, 5, -INFINITY, 3, 5, 0, 2};
  double total = 0;
  for (const float x : logits) total += std::exp(x);
  const TokenChoice choice = describe_choice(logits, 6);
  const int32_t order[] = {1, 4, 3, 6, 0}; // ties: lower id first
  for (size_t i = 0; i < 5; ++i) {
    CHECK(choice.top[i].token == order[i]);
    CHECK(choice.top[i].probability() == doctest::Approx(std::exp(logits[order[i]]) / total));
  }
  CHECK(choice.token == 6);
  CHECK(choice.probability() == doctest::Approx(std::exp(2) / total));
}

TEST_CASE("a vocabulary of fewer than five tokens leaves the rest empty") {
  const std::vector<float> logits = {1, 2};
  const TokenChoice choice = describe_choice(logits, 0);
  CHECK(choice.top[0].token == 1);
  CHECK(choice.top[1].token == 0);
  CHECK(choice.top[2].token == -1);
  CHECK(choice.top[0].probability() + choice.top[1].probability() == doctest::Approx(1));
}
