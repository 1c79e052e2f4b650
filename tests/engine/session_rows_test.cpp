// A drafter gets every token's hidden row, whatever is batched, run ahead, repeated or cached.
#include "engine/sequences/session.h"

#include "support/history_executor.h"
#include "support/http/requests.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge;
using tests::History;

namespace {

// Checks rows. Most guesses are right.
class RowReader final : public engine::Drafter {
 public:
  RowReader(const History::Settings& settings, uint64_t seed, int64_t& drafts)
      : settings_(settings), random_(seed), drafts_(drafts) {}

  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t> tokens) override {
    tokens_ = tokens;
    return 0;
  }
  std::vector<int32_t> draft(int64_t most) override {
    REQUIRE(std::ssize(seen_) >= std::ssize(tokens_) - 1);
    CHECK(std::equal(tokens_.begin(), tokens_.end() - 1, seen_.begin()));
    ++drafts_;
    uint64_t state = 0;
    for (const int32_t token : tokens_) state = History::after(state, token);
    std::vector<int32_t> guesses;
    while (std::ssize(guesses) < most) {
      guesses.push_back((History::next_of(state, settings_.vocab) + (random_() % 4 == 0)) % settings_.vocab);
      state = History::after(state, guesses.back());
    }
    return guesses;
  }
  bool reads_rows() const override { return true; }
  int64_t resume(std::span<const int32_t> prompt) override {
    seen_.resize(std::ranges::mismatch(seen_, prompt).in1 - seen_.begin());
    // Loses a row. A recurrent state would go back further.
    if (!settings_.recurrent && random_() % 2 && !seen_.empty()) seen_.pop_back();
    return std::ssize(seen_);
  }
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) override {
    const int64_t first = std::ssize(tokens) - std::ssize(rows) / History::kRowWidth;
    REQUIRE(first <= std::ssize(seen_));
    uint64_t state = 0;
    for (int64_t i = 0; i < std::ssize(tokens); ++i) {
      state = History::after(state, tokens[i]);
      if (i < first) continue;
      const auto expected = History::row_of(state, i);
      CHECK(std::ranges::equal(rows.subspan((i - first) * History::kRowWidth, History::kRowWidth), expected));
    }
    seen_.assign(tokens.begin(), tokens.end());
  }

 private:
  const History::Settings settings_;
  std::mt19937_64 random_;
  int64_t& drafts_;
  std::vector<int32_t> seen_;
  std::span<const int32_t> tokens_;
};

// Turns that go back at times. Returns all turns' tokens.
std::vector<int32_t> converse(const History::Settings& settings, uint64_t seed,
                              std::unique_ptr<engine::Speculator> speculator) {
  History executor(settings);
  engine::Session session(executor, executor.program, std::move(speculator));
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens = {1, 2, 3, 4}, all;
  for (int turn = 0; turn < 12; ++turn) {
    engine::SequenceRequest request = tests::request_of(tokens, static_cast<int64_t>(random() % 20));
    request.keep_choices = random() % 4 == 0;
    session.generate(std::move(request));
    tokens.assign(session.tokens().begin(), session.tokens().end());
    all.insert(all.end(), tokens.begin(), tokens.end());
    const uint64_t what = random() % 4;
    if (what == 0) tokens.resize(1 + random() % tokens.size());
    if (what == 1 && tokens.size() > 3) tokens.erase(tokens.begin() + 1, tokens.begin() + 3);
    if (what == 2) session.keep(static_cast<int64_t>(random() % tokens.size()));
    for (uint64_t more = 1 + random() % 5; more > 0; --more) tokens.push_back(static_cast<int32_t>(random() % 7));
    if (std::ssize(tokens) > settings.context) tokens.resize(9);
  }
  return all;
}

} // namespace

TEST_CASE("a drafter gets the hidden rows of every token, through turns that go back and on") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int64_t drafts = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    History::Settings settings{.streams = 1, .context = 150, .max_batch = 1 + static_cast<int64_t>(random() % 24)};
    settings.recurrent = random() % 2;
    settings.decodes = random() % 2;
    settings.vocab = random() % 2 ? 101 : 8;
    settings.outputs = 1 + static_cast<int64_t>(random() % 16);
    const uint64_t turns = random();
    const std::vector<int32_t> plain = converse(settings, turns, nullptr);
    settings.has_rows = true;
    auto reader = std::make_unique<RowReader>(settings, random(), drafts);
    CHECK(converse(settings, turns, std::make_unique<engine::Speculator>(std::move(reader), random() % 6)) == plain);
  }
  CHECK(drafts > 2000);
}
