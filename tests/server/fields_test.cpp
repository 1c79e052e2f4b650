// Supported, rejected, ignored fields.
#include "server/requests/request_fields.h"
#include "support/http/endpoint.h"

#include <fstream>
#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

std::string content_of(const Endpoint& endpoint, const Json& body) {
  return endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"];
}

std::string error_of(const Endpoint& endpoint, const std::string& path, const Json& body) {
  const Json error = endpoint.post(path, body, 400)["error"];
  return error.is_string() ? error : error["message"];
}

} // namespace

TEST_CASE("an answer is held to a grammar, a schema, an expression or choices, by each peer's name for them") {
  const Endpoint endpoint;
  Json body = chat_body("Hi", 20);
  const auto held = [&](const char* name, const Json& value) {
    Json asked = body;
    asked[name] = value;
    const std::string chat = content_of(endpoint, asked);
    asked.erase("messages");
    asked["prompt"] = "Hi";
    CHECK_MESSAGE(endpoint.post("/v1/completions", asked)["choices"][0]["text"] == chat, name);
    return chat;
  };
  CHECK(held("grammar", "root ::= \"yes\"") == "yes");
  CHECK(held("guided_grammar", "root ::= \"no\"") == "no");
  CHECK(held("json_schema", {{"const", 7}}) == "7");
  CHECK(held("guided_json", {{"const", 8}}) == "8");
  CHECK(held("guided_json", R"({"const": 9})") == "9");
  CHECK(held("guided_choice", {"a \"b\""}) == "a \"b\"");
  CHECK(held("guided_regex", "ab{3}|ab{3}") == "abbb");
  CHECK(held("guided_regex", "^x7$") == "x7");
  CHECK(held("structured_outputs", {{"regex", "q"}}) == "q");
  CHECK(held("structured_outputs", {{"choice", {"r"}}}) == "r");
  CHECK(held("structured_outputs", {{"grammar", "root ::= \"s\""}}) == "s");
  CHECK(held("structured_outputs", {{"json", {{"const", 1}}}}) == "1");
  CHECK(held("response_format", {{"type", "grammar"}, {"grammar", "root ::= \"t\""}}) == "t");

  const auto error = [&](const Json& fields) {
    Json asked = body;
    asked.update(fields);
    return error_of(endpoint, "/v1/chat/completions", asked);
  };
  CHECK(error({{"grammar", "root ::= \"a\""}, {"guided_choice", {"b"}}}) ==
        "grammar and guided_choice cannot be combined: only one of them can constrain an answer");
  CHECK(error({{"grammar", "root ="}}).starts_with("grammar: "));
  CHECK(error({{"guided_regex", "(?=a)"}}).starts_with("guided_regex: "));
  CHECK(error({{"structured_outputs", {{"structural_tag", "x"}}}}) ==
        "structured_outputs.structural_tag is not supported");
  CHECK(error({{"grammar", "root ::= \"a\""}, {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}})
            .starts_with("grammar: cannot be combined with tools"));
}

TEST_CASE("-1 is no limit, seeds have 64 bits, and penalties of 0 are off") {
  const Endpoint endpoint;
  const std::string whole = content_of(endpoint, chat_body("What is ridge?", 300));
  Json body = chat_body("What is ridge?", -1);
  CHECK(content_of(endpoint, body) == whole);
  body.erase("max_tokens");
  body["n_predict"] = -1;
  body["top_k"] = -1;
  body["repeat_penalty"] = 0;
  CHECK(content_of(endpoint, body) == whole);
  body["n_predict"] = 2;
  CHECK(content_of(endpoint, body).size() < whole.size());
  body["n_predict"] = 12;
  body["temperature"] = 1.5;
  for (const Json& seed : Json{-5, 1234567890123456789, 18446744073709551615u, INT64_MIN, 9223372036854775}) {
    body["seed"] = seed;
    CHECK(content_of(endpoint, body) == content_of(endpoint, body));
    Json two = body;
    two["n"] = 2;
    CHECK(endpoint.post("/v1/chat/completions", two)["choices"].size() == 2);
  }
  body["seed"] = 1e300;
  CHECK(error_of(endpoint, "/v1/chat/completions", body).starts_with("seed: "));
}

TEST_CASE("ends that a request adds or puts off") {
  const Endpoint endpoint;
  const Json body = chat_body("What is ridge?", 300);
  const Json whole = endpoint.post("/v1/chat/completions", body);
  REQUIRE(whole["choices"][0]["finish_reason"] == "stop");
  const int tokens = whole["usage"]["completion_tokens"];
  Json longer = body;
  longer["min_tokens"] = tokens + 5;
  CHECK(endpoint.post("/v1/chat/completions", longer)["usage"]["completion_tokens"].get<int>() > tokens + 5);
  longer = body;
  longer["ignore_eos"] = true;
  CHECK(endpoint.post("/v1/chat/completions", longer)["usage"]["completion_tokens"] == 300);
  Json shorter = body;
  const std::string text = whole["choices"][0]["message"]["content"];
  const Json ids = endpoint.post("/tokenize", {{"content", text}})["tokens"];
  shorter["stop_token_ids"] = {ids[5]};
  CHECK(endpoint.post("/v1/chat/completions", shorter)["usage"]["completion_tokens"].get<int>() <= 7);
  longer["min_tokens"] = 301;
  CHECK(error_of(endpoint, "/v1/chat/completions", longer).starts_with("min_tokens: 301 exceeds"));
  Json fresh = chat_body("What is ridge?", 2);
  fresh["cache_prompt"] = false;
  const Json read = endpoint.post("/v1/chat/completions", fresh);
  CHECK(read["usage"]["prompt_tokens_details"]["cached_tokens"] == 0);
}

TEST_CASE("the old form of functions is answered in the old form") {
  const Endpoint endpoint;
  Json body = chat_body("What is the weather?", 300);
  body["functions"] = {
      {{"name", "weather"},
       {"parameters", {{"type", "object"}, {"properties", {{"city", {{"enum", {"Rome"}}}}}}, {"required", {"city"}}}}}};
  body["function_call"] = {{"name", "weather"}};
  const Json choice = endpoint.post("/v1/chat/completions", body)["choices"][0];
  CHECK(choice["finish_reason"] == "function_call");
  REQUIRE(choice["message"].contains("function_call"));
  CHECK(choice["message"]["function_call"]["name"] == "weather");
  CHECK(Json::parse(choice["message"]["function_call"]["arguments"].get<std::string>()) == Json{{"city", "Rome"}});
  CHECK(!choice["message"].contains("tool_calls"));

  Json streamed = body;
  streamed["stream"] = true;
  std::istringstream lines(endpoint.client().post("/v1/chat/completions", streamed.dump()).body);
  std::string name, arguments, finish;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json part = Json::parse(line.substr(6))["choices"][0];
    if (part["finish_reason"].is_string()) finish = part["finish_reason"];
    if (!part["delta"].contains("function_call")) continue;
    if (part["delta"]["function_call"].contains("name")) name += part["delta"]["function_call"]["name"];
    arguments += part["delta"]["function_call"]["arguments"];
  }
  CHECK(name == "weather");
  CHECK(finish == "function_call");
  CHECK(arguments == choice["message"]["function_call"]["arguments"].get<std::string>());

  body["messages"].push_back(choice["message"]);
  body["messages"].push_back({{"role", "function"}, {"name", "weather"}, {"content", "sunny"}});
  body["function_call"] = "none";
  CHECK(endpoint.post("/v1/chat/completions", body)["choices"].size() == 1);
}

TEST_CASE("fields that change an answer and are not done are refused, others are ignored and counted") {
  const Endpoint endpoint;
  const auto refused = [&](const char* path, const char* field, const Json& value, const Json& harmless) {
    Json body = chat_body("Hi", 1);
    if (std::string_view(path) == "/v1/completions") body = {{"prompt", "Hi"}, {"max_tokens", 1}};
    if (std::string_view(path) == "/v1/responses") body = {{"input", "Hi"}, {"max_output_tokens", 1}};
    body[field] = value;
    CHECK(error_of(endpoint, path, body) == std::string(field) + " is not supported");
    body[field] = harmless;
    endpoint.post(path, body);
  };
  refused("/v1/chat/completions", "top_a", 2, 0);
  refused("/v1/chat/completions", "smoothing_factor", 0.8, 0.0);
  refused("/v1/chat/completions", "modalities", {"text", "audio"}, {"text"});
  refused("/v1/chat/completions", "skip_special_tokens", false, true);
  // Editors read a conversation into the cache with a request whose answer they want nothing of.
  refused("/v1/chat/completions", "response_fields", {"content", "timings"}, Json::array({""}));
  refused("/v1/completions", "use_beam_search", true, false);
  refused("/v1/responses", "background", true, false);
  Json body = {{"prompt", "Hi"}, {"options", {{"tfs_z", 0.5}}}, {"stream", false}};
  CHECK(error_of(endpoint, "/api/generate", body) == "options.tfs_z is not supported");

  CHECK(endpoint.get("/metrics").find("\nridge_ignored_fields_total 0\n") != std::string::npos);
  body = chat_body("Hi", 1);
  body["frobnicate"] = 1;
  body["wibble"] = {{"a", 1}};
  endpoint.post("/v1/chat/completions", body);
  CHECK(endpoint.get("/metrics").find("\nridge_ignored_fields_total 2\n") != std::string::npos);
}

TEST_CASE("the documentation lists the fields that are refused") {
  std::ifstream file("docs/serve.md");
  if (!file) file.open(RIDGE_SOURCE_DIR "/docs/serve.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const std::string_view name : server::refused_fields())
    CHECK_MESSAGE(text.str().find(fmt::format("`{}`", name)) != std::string::npos, name);
}
