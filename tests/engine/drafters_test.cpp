// Drafts, and when to stop drafting.
#include "engine/speculation/ngram_drafter.h"
#include "engine/speculation/speculator.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

using namespace ridge;
using engine::NgramDrafter;
using engine::Speculator;

namespace {

std::vector<int32_t> counted(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Stubborn final : public engine::Drafter {
 public:
  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t>) override { return 0; }
  std::vector<int32_t> draft(int64_t most) override { return std::vector<int32_t>(most, 7); }
};

class AtOnce final : public engine::Drafter {
 public:
  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t>) override { return 0; }
  std::vector<int32_t> draft(int64_t most) override { return std::vector<int32_t>(most, 7); }
  int64_t most_at_once() const override { return 9; }
};

// Returns how many of `count` opportunities are used if `right` of `of` guesses are accepted and a step of n tokens
// takes 1 + slope * (n - 1).
int64_t tried(Speculator& speculator, int count, int right, int of, double slope) {
  const std::vector<int32_t> tokens = {1};
  std::mt19937 random(1);
  int64_t steps = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t length = speculator.draft_length(tokens, 1, engine::kMaxGuesses);
    if (length == 0) {
      speculator.record_step_time(1, 1);
      continue;
    }
    ++steps;
    const auto made = std::ssize(speculator.draft());
    int64_t good = 0;
    while (good < made && static_cast<int>(random() % of) < right) ++good;
    speculator.record_step_time(1 + made, 1 + slope * static_cast<double>(made));
    speculator.record_acceptance(made, good);
  }
  return steps;
}

Speculator fresh() {
  return Speculator(std::make_unique<Stubborn>(), 0, [] { return 0.0; });
}

} // namespace

TEST_CASE("what followed the same tokens before is guessed to follow again") {
  NgramDrafter drafter;
  std::vector<int32_t> tokens = joined(counted(10, 20), {13, 14, 15});
  drafter.begin(tokens);
  REQUIRE(drafter.prepare_draft(tokens) >= 0);
  CHECK(drafter.draft(4) == counted(16, 4));
  SUBCASE("the longest match counts") {
    // 16 follows 14 15 first, 90 later.
    tokens = joined(tokens, {90, 91, 3, 14, 15});
    REQUIRE(drafter.prepare_draft(tokens) >= 0);
    CHECK(drafter.draft(1)[0] == 90); // the last match
    tokens = joined(tokens, {5, 12, 13, 14, 15});
    REQUIRE(drafter.prepare_draft(tokens) >= 0);
    CHECK(drafter.draft(3) == counted(16, 3)); // 12 13 14 15 is longer than 13 14 15
  }
  SUBCASE("what has not been there is not guessed") {
    tokens = joined(tokens, {77});
    CHECK(drafter.prepare_draft(tokens) == -1);
  }
  SUBCASE("a longer match is of another kind") {
    const int of_three = drafter.prepare_draft(tokens);
    tokens = joined(tokens, counted(16, 9));
    CHECK(drafter.prepare_draft(tokens) > of_three);
  }
  SUBCASE("a text that repeats itself goes on so past its end") {
    const std::vector<int32_t> twice = {1, 2, 3, 1, 2, 3};
    drafter.begin(twice);
    REQUIRE(drafter.prepare_draft(twice) >= 0);
    CHECK(drafter.draft(7) == std::vector<int32_t>{1, 2, 3, 1, 2, 3, 1});
  }
  SUBCASE("another conversation has other matches") {
    const std::vector<int32_t> other = {16, 17, 13, 14};
    drafter.begin(other);
    CHECK(drafter.prepare_draft(other) == -1);
  }
}

TEST_CASE("guessing is given up where it does not pay, and tried again now and then") {
  Speculator never = fresh(), always = fresh(), dear = fresh(), mostly = fresh();
  CHECK(tried(never, 1000, 0, 1, 0.1) < 20);
  CHECK(tried(always, 1000, 1, 1, 0.1) > 990);
  CHECK(tried(dear, 1000, 1, 2, 1.0) < 40); // each token costs a full step
  CHECK(tried(mostly, 1000, 4, 5, 0.1) > 950);
}

TEST_CASE("a drafter that becomes right is found out") {
  Speculator speculator = fresh();
  tried(speculator, 500, 0, 1, 0.1);
  CHECK(tried(speculator, 2000, 1, 1, 0.1) > 1000);
}

TEST_CASE("as many guesses are made as are right, where later ones are right less often") {
  Speculator speculator = fresh();
  const std::vector<int32_t> tokens = {1};
  int64_t length = 0;
  for (int i = 0; i < 400; ++i) {
    length = speculator.draft_length(tokens, 1, engine::kMaxGuesses);
    if (length > 0) speculator.record_acceptance(std::ssize(speculator.draft()), std::min<int64_t>(length, 2));
    speculator.record_step_time(1 + length, 1 + 0.1 * static_cast<double>(length));
  }
  CHECK(length == 2);
}

TEST_CASE("guesses that pay are found although the first step of them takes as long as two") {
  Speculator speculator = fresh();
  const std::vector<int32_t> tokens = {1};
  std::mt19937 random(5);
  int64_t last = 0, guessed = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t length = speculator.draft_length(tokens, 1, engine::kMaxGuesses);
    int64_t right = 0;
    if (length > 0) {
      speculator.draft();
      while (right < length && random() % 10 < 8) ++right;
      speculator.record_acceptance(length, right);
    }
    speculator.record_step_time(1 + length, (length > 0 ? 1.5 + 0.2 * static_cast<double>(length - 1) : 1) +
                                                (last == 0 && length > 0));
    last = length;
    guessed += length > 0 && i >= 1000;
  }
  CHECK(guessed > 900);
}

TEST_CASE("guesses are counted by their place") {
  Speculator speculator(std::make_unique<Stubborn>(), 3);
  const std::vector<int32_t> tokens = {1};
  speculator.begin(tokens);
  speculator.record_acceptance(0, 0);
  REQUIRE(speculator.draft_length(tokens, 1, 15) > 0);
  speculator.record_acceptance(3, 1);
  speculator.record_acceptance(2, 2);
  const engine::GuessCounts& counts = speculator.counts();
  CHECK(counts.steps == 2);
  CHECK(counts.made[0] == 2);
  CHECK(counts.right[1] == 1);
  CHECK(counts.made[2] == 1);
  CHECK(counts.all_made() == 5);
  CHECK(counts.all_right() == 3);
}

TEST_CASE("a drafter whose drafts take the same time whatever their length drafts many tokens after short drafts") {
  double now = 0;
  Speculator speculator(std::make_unique<AtOnce>(), 0, [&] { return now += 0.5; });
  const std::vector<int32_t> tokens = {1};
  std::mt19937 random(1);
  for (const int64_t most : {1, 15}) {
    int64_t longest = 0;
    for (int i = 0; i < 100; ++i) {
      const int64_t length = speculator.draft_length(tokens, 1, most);
      longest = std::max(longest, length);
      if (length == 0) {
        speculator.record_step_time(1, 1);
        continue;
      }
      const auto made = std::ssize(speculator.draft());
      int64_t good = 0;
      while (good < made && random() % 10 < 8) ++good;
      speculator.record_step_time(1 + made, 1);
      speculator.record_acceptance(made, good);
    }
    CHECK(longest == std::min(most, int64_t{9})); // further guesses cost nothing
  }
}
