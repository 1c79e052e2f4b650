// Priorities on one stream.
#include "support/http/endpoint.h"
#include "support/http/socket.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <string>

using namespace ridge;
using server::Json;
using tests::Endpoint;
using tests::History;
using tests::Socket;

namespace {

Endpoint history_endpoint(int64_t prefix_bytes) {
  return Endpoint([] { return tests::open_history({.streams = 1, .context = 1 << 20}); }, "", nullptr,
                  engine::PrefixSettings{.bytes = prefix_bytes});
}

// Ends only by its limit.
Json body_with(const Endpoint& endpoint, int64_t priority, int64_t max_tokens) {
  Json body = {{"prompt", "ridge"}, {"max_tokens", max_tokens}, {"temperature", 0}, {"priority", priority}};
  const text::Tokenizer& tokenizer = endpoint.service.tokenizer();
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token)
    if (tokenizer.is_eog(token)) body["logit_bias"][std::to_string(token)] = -100;
  return body;
}

} // namespace

TEST_CASE("a request of a lower priority number does not wait for one of a higher number") {
  const Endpoint endpoint = history_endpoint(1 << 28);
  Socket running(endpoint.server.port());
  Json body = body_with(endpoint, 3, 1 << 19);
  body["stream"] = true;
  REQUIRE(running.request("POST /v1/completions", body.dump()));
  REQUIRE(running.wait_for_byte());
  REQUIRE(tests::eventually("the answer to begin", [&] { return endpoint.service.counts().running > 0; }));
  CHECK(endpoint.post("/v1/completions", body_with(endpoint, 2, 20))["usage"]["prompt_tokens"].get<int>() > 0);
  CHECK(endpoint.service.counts().preemptions == 1);
  CHECK(endpoint.get("/metrics").find("\nridge_preemptions_total 1\n") != std::string::npos);
}

TEST_CASE("a priority that is no whole number is refused by all routes that take one") {
  const Endpoint endpoint = history_endpoint(0);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/responses"}) {
    CAPTURE(path);
    Json body = tests::chat_body("What is ridge?", 4);
    body["prompt"] = body["input"] = "What is ridge?";
    if (std::string(path) == "/v1/completions") body.erase("messages");
    body["priority"] = -5;
    if (std::string(path) == "/v1/responses") body.erase("prompt");
    endpoint.post(path, body);
    for (const Json& wrong : {Json(1.5), Json("high"), Json(1e300)}) {
      body["priority"] = wrong;
      CHECK(endpoint.post(path, body, 400)["error"]["param"] == "priority");
    }
  }
}
