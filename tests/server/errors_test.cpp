// Errors in each API's form, and failing answers.
#include "core/error.h"
#include "server/json/reply.h"
#include "support/http/endpoint.h"

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

struct Recorder final : server::HttpSink {
  void begin(int status_) override {
    if (status == 0) status = status_;
  }
  bool write(std::string_view bytes) override {
    begin(200);
    text += bytes;
    return true;
  }
  bool is_there() const override { return true; }

  int status = 0;
  std::string text;
};

} // namespace

TEST_CASE("an answer that fails is an error of status 500, unless its stream has begun") {
  using server::ErrorForm;
  using server::Stream;
  const auto run = [](Stream stream, ErrorForm form) {
    server::HttpResponse response;
    server::reply_later(response, stream, form, [](server::Client&) { throw Error("the logits are NaN"); });
    Recorder sink;
    CHECK(response.write(sink));
    return std::pair(sink.status, sink.text);
  };
  CHECK(run(Stream::none, ErrorForm::openai).first == 500);
  CHECK(Json::parse(run(Stream::none, ErrorForm::openai).second)["error"]["message"] == "the logits are NaN");
  CHECK(Json::parse(run(Stream::none, ErrorForm::anthropic).second)["error"]["type"] == "api_error");
  CHECK(Json::parse(run(Stream::none, ErrorForm::ollama).second) == Json{{"error", "the logits are NaN"}});
  CHECK(run(Stream::events, ErrorForm::openai).first == 200);
  CHECK(run(Stream::events, ErrorForm::openai).second.starts_with("data: {\"error\":"));
  CHECK(run(Stream::events, ErrorForm::anthropic).second.starts_with("event: error\n"));
}

TEST_CASE("an answer that ends with an error is one of status 500 over a socket, and counted") {
  const Endpoint endpoint([] {
    engine::LoadedModel model = tests::open_history({});
    dynamic_cast<tests::History&>(*model.executor).broken = true;
    return model;
  });
  const Json body = chat_body("Hi", 4);
  CHECK(endpoint.post("/v1/chat/completions", body, 500)["error"]["message"] == "the device is gone");
  CHECK(endpoint.post("/v1/messages", body, 500)["error"]["type"] == "api_error");
  CHECK(endpoint.post("/v1/responses", {{"input", "Hi"}}, 500)["error"]["type"] == "server_error");
  Json ollama = body;
  ollama["stream"] = false;
  CHECK(endpoint.post("/api/chat", ollama, 500) == Json{{"error", "the device is gone"}});
  const std::string events = endpoint.client().post("/v1/responses", R"({"input": "Hi", "stream": true})").body;
  CHECK(events.find("event: response.failed\n") != std::string::npos);
  CHECK(endpoint.get("/metrics").find("\nridge_requests_failed_total 5\n") != std::string::npos);
}

TEST_CASE("a prompt that is too long is said as each API's clients look for it") {
  const Endpoint endpoint;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word ";
  Json body = chat_body(text, 5);
  const Json openai = endpoint.post("/v1/chat/completions", body, 400)["error"];
  CHECK(openai["code"] == "context_length_exceeded");
  CHECK(openai["type"] == "invalid_request_error");
  CHECK(openai["message"].get<std::string>().find("maximum context length is 1024 tokens") != std::string::npos);
  CHECK(openai["message"].get<std::string>().find("exceeds the available context size") != std::string::npos);
  CHECK(openai["n_ctx"] == 1024);
  const Json anthropic = endpoint.post("/v1/messages", body, 400);
  CHECK(anthropic["error"]["message"] ==
        fmt::format("prompt is too long: {} tokens > 1024 maximum", openai["n_prompt_tokens"].get<int>()));
  CHECK(endpoint.post("/api/chat", body, 400)["n_prompt_tokens"] == openai["n_prompt_tokens"]);
  CHECK(endpoint.post("/v1/responses", {{"input", text}}, 400)["error"]["code"] == "context_length_exceeded");
  CHECK(endpoint.post("/v1/completions", {{"prompt", text}}, 400)["error"]["code"] == "context_length_exceeded");
}

TEST_CASE("unknown routes have their API's form") {
  const Endpoint endpoint;
  CHECK(endpoint.post("/v1/nothing", Json::object(), 404)["error"]["type"] == "invalid_request_error");
  CHECK(endpoint.post("/v1/messages/batches", Json::object(), 404)["error"]["type"] == "not_found_error");
  CHECK(endpoint.post("/messages/batches", Json::object(), 404)["error"]["type"] == "not_found_error");
  CHECK(endpoint.post("/api/pull", Json::object(), 404)["error"].is_string());
  CHECK(endpoint.post("/v1/responses/input_tokens/x", Json::object(), 404)["error"]["type"] == "invalid_request_error");
  CHECK(endpoint.client().ask("DELETE", "/v1/models/guide").status == 404);
  CHECK(endpoint.client().ask("DELETE", "/v1/models").status == 405);
  const Json of_anthropic =
      Json::parse(endpoint.client().get("/v1/models/x", {{"anthropic-version", "2023-06-01"}}).body);
  CHECK(of_anthropic["type"] == "error");
  CHECK(of_anthropic["error"]["type"] == "not_found_error");
  CHECK(Json::parse(endpoint.get("/v1/models/x"))["error"]["code"] == "model_not_found");
}

TEST_CASE("OpenAI's paths without /v1 are those with it, and a prompt of several answers counts once") {
  const Endpoint endpoint;
  Json body = chat_body("What is ridge?", 4);
  const Json one = endpoint.post("/v1/chat/completions", body);
  CHECK(endpoint.post("/chat/completions", body)["choices"] == one["choices"]);
  CHECK(endpoint.get("/models") == endpoint.get("/v1/models"));
  const Json text = {{"prompt", "ridge"}, {"max_tokens", 2}, {"temperature", 0}};
  CHECK(endpoint.post("/completions", text)["choices"] == endpoint.post("/v1/completions", text)["choices"]);
  CHECK(endpoint.post("/responses", {{"input", "Hi"}, {"max_output_tokens", 2}})["object"] == "response");
  body["n"] = 3;
  const Json several = endpoint.post("/v1/chat/completions", body);
  CHECK(several["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]);
  CHECK(several["usage"]["completion_tokens"] == 3 * one["usage"]["completion_tokens"].get<int>());
  CHECK(several["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() <
        several["usage"]["prompt_tokens"].get<int>());
}
