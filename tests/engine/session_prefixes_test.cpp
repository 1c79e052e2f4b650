// Going back or branching evaluates only new tokens.
#include "engine/sequences/session.h"

#include "support/history_executor.h"
#include "support/http/requests.h"

#include <doctest/doctest.h>

using namespace ridge;
using tests::History;
using tests::request_of;

namespace {

constexpr int64_t kAnswer = 120; // long enough to be copied, not evaluated again

std::vector<int32_t> text_of(int32_t first, int64_t tokens) {
  std::vector<int32_t> text;
  for (int64_t i = 0; i < tokens; ++i) text.push_back(static_cast<int32_t>((first + i * i) % 101));
  return text;
}

struct HistoryTalk {
  explicit HistoryTalk(const History::Settings& settings) : executor(settings) {}

  std::vector<int32_t> say(std::vector<int32_t> text, const std::vector<int32_t>& words, int64_t& evaluated) {
    text.insert(text.end(), words.begin(), words.end());
    const int64_t before = executor.evaluated;
    session.generate(request_of(text, kAnswer));
    evaluated = executor.evaluated - before;
    return {session.tokens().begin(), session.tokens().end()};
  }

  History executor;
  engine::Session session{executor, executor.program, nullptr, {.bytes = 1 << 24}};
};

} // namespace

TEST_CASE("conversations and branches that a session turns to again cost only what is new") {
  for (const History::Settings& settings : {History::Settings{.streams = 1, .context = 1000},
                                            {.streams = 1, .context = 1000, .recurrent = true},
                                            {.streams = 1, .context = 1000, .max_batch = 8, .rewind_tokens = 16}}) {
    CAPTURE(settings.recurrent);
    CAPTURE(settings.rewind_tokens);
    HistoryTalk talk(settings);
    int64_t evaluated = 0;
    const std::vector<int32_t> question = text_of(1, 8);
    // An answer's last token is evaluated with the next turn.
    const std::vector<int32_t> first = talk.say({}, text_of(3, 200), evaluated);
    CHECK(evaluated == 200 + kAnswer - 1);
    const std::vector<int32_t> longer = talk.say(first, question, evaluated);
    CHECK(evaluated == 1 + 8 + kAnswer - 1);
    CHECK(talk.say(first, question, evaluated) == longer);
    // Windowed caches have a copy at the turn's start only.
    CHECK(evaluated == kAnswer + (settings.rewind_tokens > 0 ? 8 : 0));
    talk.say(first, text_of(5, 8), evaluated);
    CHECK(evaluated <= 1 + 8 + kAnswer - 1);
    talk.say({}, text_of(50, 200), evaluated);
    CHECK(evaluated == 200 + kAnswer - 1);
    talk.say(longer, question, evaluated);
    CHECK(evaluated == 1 + 8 + kAnswer - 1);
  }
}

TEST_CASE("a session says what it holds and keeps") {
  HistoryTalk talk({.streams = 1, .context = 1000});
  CHECK(talk.session.tokens().empty());
  CHECK(talk.session.prompt_usage().tokens == 0);
  api::Sequences seen = talk.session.scheduler().sequences();
  CHECK(seen.rows.empty());
  CHECK(seen.context == 1000);
  CHECK(seen.prefixes.empty());
  int64_t evaluated = 0;
  talk.say({}, text_of(3, 100), evaluated);
  seen = talk.session.scheduler().sequences();
  CHECK(seen.rows.empty());
  REQUIRE(seen.streams.size() == 1);
  CHECK(seen.streams[0] == api::Sequences::Stream{false, 100 + kAnswer - 1});
  talk.say({}, text_of(50, 100), evaluated);
  seen = talk.session.scheduler().sequences();
  REQUIRE(seen.prefixes.size() == 1);
  CHECK(seen.prefixes[0].tokens == 100 + kAnswer - 1);
  CHECK(seen.prefixes[0].bytes == seen.prefix_bytes);
  CHECK(seen.prefix_budget == 1 << 24);
  talk.session.keep(10);
  CHECK(talk.session.cached().size() == 10);
  CHECK(talk.session.scheduler().sequences().streams[0].tokens == 10);
}
