// Several answers to one request, more of them than can be generated together.
#include "support/http/endpoint.h"

#include <chrono>
#include <string>
#include <thread>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

TEST_CASE("answers that wait for a stream do not delay what is found in those that have one") {
  const Endpoint endpoint([] {
    engine::LoadedModel model = tests::open_history({.streams = 4, .context = 512});
    dynamic_cast<tests::History&>(*model.executor).before_step = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    return model;
  });
  const auto generated = [&] { return endpoint.service.scheduler().counts().generated_tokens; };
  Json body = chat_body("What is ridge?", 200);
  const std::string whole = endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"];
  REQUIRE(whole.size() > 150);
  body["stop"] = whole.substr(100, 20);
  int64_t before = generated();
  endpoint.post("/v1/chat/completions", body);
  const int64_t alone = generated() - before; // tokens until it was stopped
  body["n"] = 16;
  before = generated();
  const Json reply = endpoint.post("/v1/chat/completions", body);
  REQUIRE(reply["choices"].size() == 16);
  for (const Json& choice : reply["choices"]) CHECK(choice["message"]["content"] == whole.substr(0, 100));
  CAPTURE(alone);
  CHECK((generated() - before) * 10 < 16 * alone * 15); // few further ones before the stop text was found
}
