// Several answers to a request, with fewer streams.
#include "server/answers.h"
#include "support/http/endpoint.h"
#include "support/watchdog.h"

#include <atomic>
#include <string>
#include <vector>

using namespace ridge;
using server::Answers;
using tests::Endpoint;

TEST_CASE("answers that wait for a stream do not delay what is found in those that have one") {
  std::atomic<bool> followed = false;
  std::atomic<int64_t> rounds = 0; // reads of new tokens
  Endpoint endpoint([&] {
    engine::LoadedModel model = tests::open_history({.streams = 4, .context = 512});
    dynamic_cast<tests::History&>(*model.executor).before_step = [&] {
      const int64_t before = rounds; // this round may have missed the last step
      if (followed) CHECK(tests::eventually("the answers to be looked at", [&] { return rounds > before + 1; }));
    };
    return model;
  });
  engine::Generation generation;
  generation.prompt = {1, 2, 3};
  generation.sampling.params.temp = 0;
  generation.sampling.max_tokens = 200;
  const auto follow = [&](const std::vector<engine::Generation>& generations) {
    Answers answers(endpoint.service, "/test", generations);
    std::vector<std::string> texts(generations.size());
    const auto round = [&] { return ++rounds > 0; };
    CHECK(answers.follow(
        round, [&](size_t i, const auto*, const engine::AnswerText::Piece& piece) { texts[i] += piece.content; }));
    return std::pair(texts, answers.all()[0].taken);
  };
  const auto generated = [&] { return endpoint.service.scheduler().counts().generated_tokens; };

  const std::string whole = follow({generation}).first[0];
  REQUIRE(whole.size() > 70);
  generation.sampling.stop = {whole.substr(50, 15)};
  const int64_t alone = follow({generation}).second;
  const int64_t before = generated();
  followed = true;
  const std::vector<std::string> texts = follow(std::vector(16, generation)).first;
  for (const std::string& text : texts) CHECK(text == whole.substr(0, 50));
  CHECK(generated() - before <= 16 * (alone + 1)); // plus the step in progress
}
