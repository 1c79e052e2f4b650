// Log-probabilities of answers and prompts in each API.
#include "core/token_choice.h"
#include "support/http/endpoint.h"

#include <cmath>
#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

std::vector<float> expected(const std::vector<int32_t>& tokens) {
  engine::LoadedModel model = tests::open_guide(1);
  std::vector<float> all;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::vector<int32_t> token = {tokens[i]}, position = {static_cast<int32_t>(i)}, output = {0};
    model.executor->forward({token, position, {}, output});
    all.push_back(core::describe_choice(model.executor->logits(0), tokens[i + 1]).log_probability);
  }
  return all;
}

} // namespace

TEST_CASE("a completion's probabilities have that of the token that ends it") {
  const Endpoint endpoint;
  const int32_t end = endpoint.model.tokenizer->eos();
  Json body = {{"prompt", "ridge"}, {"max_tokens", 4}, {"logprobs", 1}, {"echo", true}};
  body["logit_bias"] = {{std::to_string(end), 100}};
  const Json prompt = endpoint.post("/tokenize", {{"content", "ridge"}, {"add_special", true}})["tokens"];
  for (const int likely : {0, 1}) {
    body["logprobs"] = likely;
    const Json choice = endpoint.post("/v1/completions", body)["choices"][0];
    CHECK(choice["text"] == "ridge");
    CHECK(choice["finish_reason"] == "stop");
    CHECK(choice["logprobs"]["tokens"].size() == prompt.size() + 1);
    CHECK(choice["logprobs"]["tokens"].back() == std::string(endpoint.model.tokenizer->token_text(end)));
    CHECK(choice["logprobs"]["token_logprobs"].back().get<double>() < 0);
    CHECK(choice["logprobs"]["text_offset"].back() == 5);
    if (likely > 0) CHECK(choice["logprobs"]["top_logprobs"].back().contains(choice["logprobs"]["tokens"].back()));
  }
  body["stream"] = true;
  const std::string events = endpoint.client().post("/v1/completions", body.dump()).body;
  CHECK(events.find(endpoint.model.tokenizer->token_text(end)) != std::string::npos);
}

TEST_CASE("completions echo their prompt with its probabilities, as tests of log-likelihoods ask for them") {
  const Endpoint endpoint;
  const std::vector<int32_t> tokens =
      endpoint.post("/tokenize", {{"content", "ridge is a program that runs models"}})["tokens"];
  REQUIRE(tokens.size() > 3);
  const std::vector<float> wanted = expected(tokens);
  for (const int most : {0, 1})
    for (const bool stream : {false, true}) {
      const Json body = {{"prompt", {tokens, tokens}},
                         {"max_tokens", most},
                         {"temperature", 0},
                         {"logprobs", 1},
                         {"echo", true},
                         {"stream", stream}};
      Json choices;
      if (!stream) {
        choices = endpoint.post("/v1/completions", body)["choices"];
      } else {
        std::istringstream lines(endpoint.client().post("/v1/completions", body.dump()).body);
        choices = {{{"text", ""}, {"logprobs", Json::object()}}, {{"text", ""}, {"logprobs", Json::object()}}};
        for (std::string line; std::getline(lines, line);) {
          if (!line.starts_with("data: {")) continue;
          const Json part = Json::parse(line.substr(6))["choices"][0];
          Json& choice = choices[part["index"].get<size_t>()];
          choice["text"] = choice["text"].get<std::string>() + part["text"].get<std::string>();
          if (!part["logprobs"].is_null())
            for (const auto& [name, list] : part["logprobs"].items())
              for (const Json& one : list) choice["logprobs"][name].push_back(one);
        }
      }
      REQUIRE(choices.size() == 2);
      for (const Json& choice : choices) {
        CHECK(choice["text"].get<std::string>().starts_with("ridge is a program that runs models"));
        const Json& logprobs = choice["logprobs"];
        REQUIRE(logprobs["token_logprobs"].size() == tokens.size() + most);
        CHECK(logprobs["token_logprobs"][0].is_null());
        CHECK(logprobs["top_logprobs"][0].is_null());
        for (size_t i = 1; i < tokens.size(); ++i) {
          CHECK(logprobs["token_logprobs"][i].get<float>() == doctest::Approx(wanted[i - 1]).epsilon(1e-3));
          const Json& top = logprobs["top_logprobs"][i];
          CHECK(top.contains(logprobs["tokens"][i].get<std::string>()));
          CHECK((top.size() == 1 || top.size() == 2));
        }
        const std::string text = choice["text"];
        for (size_t i = 0; i + 1 < tokens.size(); ++i)
          CHECK(text.substr(logprobs["text_offset"][i]).starts_with(logprobs["tokens"][i].get<std::string>()));
      }
    }
}

TEST_CASE("20 likely tokens on every route that has them") {
  const Endpoint endpoint;
  const auto check_list = [](const Json& entries) {
    REQUIRE(entries.size() == 3);
    for (const Json& entry : entries) {
      REQUIRE(entry["top_logprobs"].size() == 20);
      CHECK(entry["top_logprobs"][0]["logprob"] == entry["logprob"]);
      for (size_t i = 1; i < 20; ++i)
        CHECK(entry["top_logprobs"][i]["logprob"].get<float>() <= entry["top_logprobs"][i - 1]["logprob"].get<float>());
    }
  };
  Json body = chat_body("What is ridge?", 3);
  body["logprobs"] = true;
  body["top_logprobs"] = 20;
  const Json chat = endpoint.post("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"];
  check_list(chat);
  const Json response = endpoint.post("/v1/responses", {{"input", "What is ridge?"},
                                                        {"max_output_tokens", 3},
                                                        {"temperature", 0},
                                                        {"top_logprobs", 20},
                                                        {"include", {"message.output_text.logprobs"}}});
  check_list(response["output"][0]["content"][0]["logprobs"]);
  Json ollama = {{"messages", body["messages"]},
                 {"logprobs", true},
                 {"top_logprobs", 20},
                 {"stream", false},
                 {"options", {{"num_predict", 3}, {"temperature", 0}}}};
  CHECK(endpoint.post("/api/chat", ollama)["logprobs"] == chat);
  const Json plain = endpoint.post("/v1/completions", {{"prompt", "ridge"}, {"max_tokens", 3}, {"logprobs", 20}});
  CHECK(plain["choices"][0]["logprobs"]["top_logprobs"][0].size() >= 20);
  body["top_logprobs"] = 21;
  CHECK(endpoint.post("/v1/chat/completions", body, 400)["error"]["param"] == "top_logprobs");
  body = {{"prompt", "ridge"}, {"logprobs", 21}};
  CHECK(endpoint.post("/v1/completions", body, 400)["error"]["param"] == "logprobs");
}

TEST_CASE("a completion reads special tokens in its prompt unless it says otherwise, and takes many prompts") {
  const Endpoint endpoint;
  const std::string prompt = endpoint.post("/apply-template", chat_body("What is ridge?"))["prompt"];
  const Json chat = endpoint.post("/v1/chat/completions", chat_body("What is ridge?", 8));
  Json body = {{"prompt", prompt}, {"max_tokens", 8}, {"temperature", 0}};
  const Json raw = endpoint.post("/v1/completions", body);
  CHECK(raw["choices"][0]["text"] == chat["choices"][0]["message"]["content"]);
  CHECK(raw["usage"]["prompt_tokens"] == chat["usage"]["prompt_tokens"]);
  body["parse_special"] = false;
  CHECK(endpoint.post("/v1/completions", body)["usage"]["prompt_tokens"].get<int>() >
        raw["usage"]["prompt_tokens"].get<int>());
  body = {{"prompt", std::vector<std::string>(40, "ridge")}, {"max_tokens", 1}};
  CHECK(endpoint.post("/v1/completions", body)["choices"].size() == 40);
}
