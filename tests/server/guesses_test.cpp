// Endpoint with and without drafts.
#include "engine/speculation/ngram_drafter.h"
#include "support/http/endpoint.h"
#include "support/http/socket.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <atomic>
#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

constexpr int64_t kGuesses = 5; // per step

// Even without a gain.
std::unique_ptr<engine::Speculator> ngrams() {
  return std::make_unique<engine::Speculator>(std::make_unique<engine::NgramDrafter>(), kGuesses);
}

Endpoint guessing_endpoint(int64_t streams) {
  return Endpoint([streams] { return tests::open_guide(streams, kGuesses + 1); }, "", ngrams());
}

std::vector<Json> bodies() {
  std::vector<Json> all(9, chat_body("What is ridge? What is ridge? Say: ridge ridge ridge", 60));
  all[1]["temperature"] = 1.5, all[1]["seed"] = 5;
  all[2]["temperature"] = 0.7, all[2]["seed"] = 6, all[2]["repeat_penalty"] = 1.3;
  all[3]["temperature"] = 2, all[3]["seed"] = 7, all[3]["n"] = 3;
  all[4]["stop"] = {"e", "ri"};
  all[5]["logprobs"] = true, all[5]["top_logprobs"] = 3;
  all[6]["response_format"] = Json::parse(R"({"type": "json_schema", "json_schema": {"name": "list", "schema": {
      "type": "object", "properties": {"names": {"type": "array", "items": {"type": "string", "maxLength": 5},
      "minItems": 6, "maxItems": 9}}, "required": ["names"]}}})");
  all[6]["max_tokens"] = 300;
  const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
      "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F"]}},
      "required": ["city", "unit"]}}}])");
  for (const int i : {7, 8}) all[i]["tools"] = tools, all[i]["tool_choice"] = "required", all[i]["max_tokens"] = 300;
  all[8]["temperature"] = 2, all[8]["seed"] = 9, all[8]["parallel_tool_calls"] = false;
  return all;
}

Json seen(Json reply) {
  for (Json& choice : reply["choices"])
    if (choice["message"].contains("tool_calls"))
      for (Json& call : choice["message"]["tool_calls"]) call.erase("id");
  return {{"choices", reply["choices"]}, {"completion_tokens", reply["usage"]["completion_tokens"]}};
}

// They depend on the prompt's pieces in their last bits.
Json without_probabilities(Json seen) {
  for (Json& choice : seen["choices"]) choice.erase("logprobs");
  return seen;
}

void leave(const Endpoint& endpoint) {
  Json body = chat_body("What is ridge?", 400);
  body["temperature"] = 100;
  body["stream"] = true;
  tests::Socket socket(endpoint.server.port());
  REQUIRE(socket.request("POST /v1/chat/completions", body.dump()));
  REQUIRE(!socket.next(1000).empty());
  socket.close();
}

} // namespace

TEST_CASE("answers with guesses are those without, alone, among others, and while others leave") {
  const Endpoint plain(3), guessing = guessing_endpoint(3);
  std::vector<Json> asked = bodies(), expected;
  const auto answer = [&](const Endpoint& endpoint, size_t i) {
    return seen(endpoint.post("/v1/chat/completions", asked[i]));
  };
  for (size_t i = 0; i < asked.size(); ++i) expected.push_back(answer(plain, i));
  for (size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(i);
    CHECK(answer(guessing, i) == expected[i]);
  }
  CHECK(plain.service.counts().guesses_made == 0);
  const engine::Scheduler::Counts alone = guessing.service.counts();
  CHECK(alone.guesses_right > 20);
  CHECK(alone.guesses_right < alone.guesses_made);

  std::vector<Json> together(asked.size());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < asked.size(); ++i) {
    const int64_t steps = guessing.service.counts().steps, ended = guessing.service.counts().ended;
    clients.emplace_back([&, i] { together[i] = answer(guessing, i); });
    if (i == 2) leave(guessing);
    // The next request arrives during this answer.
    REQUIRE(tests::eventually("the model to go on", [&] {
      const engine::Scheduler::Counts counts = guessing.service.counts();
      return counts.steps > steps + 10 || counts.ended > ended;
    }));
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(i);
    CHECK(without_probabilities(together[i]) == without_probabilities(expected[i]));
  }
  leave(guessing);
  CHECK(answer(guessing, 0) == expected[0]);
}

TEST_CASE("what became of guesses is in timings, metrics and properties") {
  const Endpoint plain(2), guessing = guessing_endpoint(2);
  const Json body = bodies()[6];
  const Json timings = guessing.post("/v1/chat/completions", body)["timings"];
  REQUIRE(timings.contains("draft_n"));
  CHECK(timings["draft_n"].get<int>() > 0);
  CHECK(timings["draft_n_accepted"] <= timings["draft_n"]);
  CHECK(timings["predicted_n"].get<int>() > 0);
  CHECK(timings["predicted_per_second"].get<double>() > 0);
  CHECK(timings["prompt_n"].get<int>() > 0);
  CHECK(timings["cache_n"] == 0);
  const std::string metrics = guessing.get("/metrics");
  CHECK(metrics.find(fmt::format("\nridge_draft_tokens_total {}\n", timings["draft_n"].get<int>())) !=
        std::string::npos);
  CHECK(metrics.find(fmt::format("\nridge_draft_tokens_accepted_total {}\n", timings["draft_n_accepted"].get<int>())) !=
        std::string::npos);
  CHECK(Json::parse(guessing.get("/props"))["speculative"] == true);
  CHECK(Json::parse(guessing.get("/slots"))[1]["speculative"] == true);

  CHECK_FALSE(plain.post("/v1/chat/completions", body)["timings"].contains("draft_n"));
  CHECK(Json::parse(plain.get("/props"))["speculative"] == false);
}

TEST_CASE("the last event of a stream has the timings") {
  const Endpoint endpoint(2);
  for (const bool with_usage : {false, true}) {
    CAPTURE(with_usage);
    Json body = chat_body("What is ridge?", 10);
    body["stream"] = true;
    body["n"] = 2;
    body["stream_options"] = {{"include_usage", with_usage}};
    tests::HttpClient http = endpoint.client();
    const tests::HttpReply reply = http.post("/v1/chat/completions", body.dump());
    REQUIRE(reply.whole);
    std::istringstream lines(reply.body);
    std::vector<bool> has_timings;
    Json last;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("data: {")) continue;
      last = Json::parse(line.substr(6));
      has_timings.push_back(last.contains("timings"));
    }
    REQUIRE(has_timings.size() > 1);
    CHECK(has_timings.back());
    CHECK(std::ranges::count(has_timings, true) == 1);
    CHECK(last["timings"]["predicted_n"] == 20);
    CHECK(last.contains("usage") == with_usage);
  }
}

TEST_CASE("tokens that came behind a stop text do not count") {
  const Endpoint plain(1), guessing = guessing_endpoint(1);
  Json body = chat_body("What is ridge?", 50);
  body["stop"] = "ridge";
  const Json expected = plain.post("/v1/chat/completions", body);
  CHECK(expected["choices"][0]["finish_reason"] == "stop");
  for (int i = 0; i < 5; ++i)
    for (const Endpoint* endpoint : {&plain, &guessing})
      CHECK(seen(endpoint->post("/v1/chat/completions", body)) == seen(expected));
}

TEST_CASE("a draft model guesses for the model that is served") {
  server::ModelSetup setup;
  setup.parallel = 2;
  setup.model.device = "cpu";
  setup.model.draft_model = RIDGE_SOURCE_DIR "/models/guide/guide.gguf";
  setup.model.draft_tokens = 3;
  const auto timings = [&] {
    server::ServedModel model(server::open_served("", setup.model, {}), setup, "guide", {}, [](const std::string&) {});
    server::Server server(model.service(), {.port = 0});
    const std::jthread listening([&] { server.run(); });
    tests::HttpClient http(server.port());
    const tests::HttpReply reply = http.post("/v1/chat/completions", chat_body("What is ridge?").dump());
    server.stop();
    REQUIRE(reply.whole);
    return Json::parse(reply.body)["timings"];
  };
  const Json guessed = timings();
  REQUIRE(guessed.contains("draft_n"));
  CHECK(guessed["draft_n_accepted"].get<int>() > 10);
  setup.model.draft_model = "";
  setup.model.speculation = "off";
  CHECK_FALSE(timings().contains("draft_n"));
}
