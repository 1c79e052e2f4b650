// Drafts leave the answer unchanged.
#include "engine/sequences/session.h"

#include "engine/scripted_drafter.h"
#include "engine/speculation/ngram_drafter.h"
#include "support/history_executor.h"
#include "support/http/requests.h"
#include "support/seed.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge;
using engine::Session;
using engine::StopReason;

namespace {

struct GuessRun {
  std::vector<int32_t> tokens;
  StopReason stop;
  int64_t evaluated, usage_tokens;
  engine::GuessCounts guesses;
};

struct Answer {
  tests::History::Settings settings;
  std::vector<int32_t> prompt;
  int64_t limit = -1;
  int32_t end = -1;
  size_t stop_behind = 0; // tokens; 0: never
  bool on_host = false;   // keep_choices makes the host sample

  GuessRun run(std::unique_ptr<engine::Speculator> speculator, int turns = 1) const {
    tests::History executor(settings);
    Session session(executor, executor.program, std::move(speculator));
    std::vector<int32_t> tokens = prompt;
    GuessRun run{};
    for (int turn = 0; turn < turns; ++turn) { // later turns reuse the cache
      engine::SequenceRequest request = tests::request_of(tokens, limit);
      if (end >= 0) request.is_end = [&](int32_t token) { return token == end; };
      size_t taken = 0;
      request.on_token = [&](const engine::Token&) { return ++taken != stop_behind; };
      request.keep_choices = on_host;
      run.stop = session.generate(std::move(request));
      tokens.assign(session.tokens().begin(), session.tokens().end());
      tokens.push_back(turn);
      run.usage_tokens += session.generation_usage().tokens;
      run.guesses += session.guesses();
    }
    tokens.pop_back();
    run.tokens = tokens;
    run.evaluated = executor.evaluated;
    return run;
  }
};

std::unique_ptr<engine::Speculator> scripted(const std::vector<int32_t>& text, double right, int32_t vocab,
                                             uint64_t seed, int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<tests::ScriptedDrafter>(text, right, vocab, seed),
                                              length);
}

} // namespace

TEST_CASE("an answer with guesses is the answer without") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    Answer answer;
    answer.settings = {.streams = 1,
                       .context = 20 + static_cast<int64_t>(random() % 200),
                       .max_batch = 1 + static_cast<int64_t>(random() % 24)};
    answer.settings.recurrent = random() % 2;
    answer.settings.decodes = random() % 2;
    answer.settings.vocab = random() % 2 ? 101 : 3;
    answer.settings.outputs = 1 + static_cast<int64_t>(random() % 16);
    answer.prompt.resize(1 + random() % 12, 1);
    if (random() % 2) answer.limit = static_cast<int64_t>(random() % 60);
    if (random() % 2) answer.end = static_cast<int32_t>(random() % answer.settings.vocab);
    if (random() % 3 == 0) answer.stop_behind = 1 + random() % 30;
    answer.on_host = random() % 4 == 0;
    const GuessRun plain = answer.run(nullptr);
    for (const double right : {0.0, 0.5, 0.9, 1.0}) {
      CAPTURE(right);
      const GuessRun guessed =
          answer.run(scripted(plain.tokens, right, answer.settings.vocab, random(), random() % 16));
      CHECK(guessed.tokens == plain.tokens);
      CHECK(guessed.stop == plain.stop);
      CHECK(guessed.usage_tokens == plain.usage_tokens);
    }
    // A text that repeats, so that n-grams match.
    CHECK(answer.run(std::make_unique<engine::Speculator>(std::make_unique<engine::NgramDrafter>(), 5)).tokens ==
          plain.tokens);
  }
}

TEST_CASE("the turn behind an answer with guesses continues in its cache") {
  for (const bool recurrent : {false, true})
    for (const bool decodes : {false, true}) {
      CAPTURE(recurrent);
      CAPTURE(decodes);
      Answer answer{
          .settings = {.streams = 1, .context = 2000, .recurrent = recurrent, .decodes = decodes, .outputs = 16},
          .prompt = {1, 2, 3},
          .limit = 97};
      const GuessRun plain = answer.run(nullptr, 5);
      const GuessRun guessed = answer.run(scripted(plain.tokens, 0.8, 101, 7, 4), 5);
      CHECK(guessed.tokens == plain.tokens);
      CHECK(guessed.guesses.all_right() > 100);
      const int64_t refuted = guessed.guesses.all_made() - guessed.guesses.all_right();
      if (!decodes) CHECK(guessed.evaluated - plain.evaluated <= (recurrent ? 16 : 1) * refuted);
    }
}

TEST_CASE("guesses that are right save steps") {
  Answer answer{
      .settings = {.streams = 1, .context = 2000, .max_batch = 32, .outputs = 16}, .prompt = {1, 2, 3}, .limit = 1000};
  const GuessRun plain = answer.run(nullptr);
  const GuessRun guessed = answer.run(scripted(plain.tokens, 1, 101, 7, 7));
  CHECK(guessed.tokens == plain.tokens);
  CHECK(guessed.guesses.all_right() == guessed.guesses.all_made());
  CHECK(guessed.guesses.steps + guessed.guesses.all_right() <= 1000);
  CHECK(guessed.guesses.all_right() > 500);
}
