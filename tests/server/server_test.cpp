// The guide's endpoint compared with a session.
#include "core/error.h"
#include "engine/chat/conversation.h"
#include "engine/sampling_defaults.h"
#include "support/http/endpoint.h"
#include "support/http/socket.h"
#include "support/temporary_folder.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;
using tests::open_guide;

namespace {

// Greedy, in the terminal chat.
std::string answer_of_session(Endpoint& endpoint, const std::string& question, int64_t max_tokens) {
  engine::LoadedModel model = open_guide(1);
  engine::Session session(*model.executor, model.program);
  api::GenerateRequest request;
  request.sampling.params.temp = 0;
  request.sampling.max_tokens = max_tokens;
  engine::Answerer answerer(model, session, request);
  engine::Conversation conversation(model, session, endpoint.chat_template);
  conversation.add_user(question);
  return conversation
      .answer(
          answerer, [](std::string_view, bool) {}, nullptr)
      .content;
}

struct Streamed {
  std::string content, finish;
  int64_t events = 0;
  bool done = false;
  Json usage;
};

Streamed stream(const Endpoint& endpoint, Json body) {
  body["stream"] = true;
  Streamed result;
  tests::HttpClient http = endpoint.client();
  const tests::HttpReply reply = http.post("/v1/chat/completions", body.dump());
  REQUIRE(reply.whole);
  CHECK(reply.header("Content-Type") == "text/event-stream");
  std::istringstream lines(reply.body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    REQUIRE(line.starts_with("data: "));
    result.done = line == "data: [DONE]";
    if (result.done) continue;
    const Json event = Json::parse(line.substr(6));
    ++result.events;
    if (event.contains("usage")) result.usage = event["usage"];
    for (const Json& choice : event["choices"]) {
      if (choice["delta"].contains("content")) result.content += choice["delta"]["content"].get<std::string>();
      if (choice["finish_reason"].is_string()) result.finish = choice["finish_reason"];
    }
  }
  return result;
}

const char* const kQuestions[] = {"What is ridge?", "What is MXFP4?", "How do I chat?", "What is a K-quant?"};

} // namespace

TEST_CASE("a chat's answer is the one of a session, whole or streamed, alone or among others") {
  Endpoint endpoint;
  std::vector<std::string> expected;
  for (const char* question : kQuestions) {
    expected.push_back(answer_of_session(endpoint, question, 40));
    const Json reply = endpoint.post("/v1/chat/completions", chat_body(question));
    CHECK(reply["choices"][0]["message"]["content"] == expected.back());
    const Streamed streamed = stream(endpoint, chat_body(question));
    CHECK(streamed.content == expected.back());
    CHECK(streamed.finish == reply["choices"][0]["finish_reason"].get<std::string>());
    CHECK(streamed.events > 10);
    CHECK(streamed.done);
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 12; ++c)
    clients.emplace_back([&, c] {
      for (int i = 0; i < 2; ++i) {
        tests::HttpClient http = endpoint.client();
        const size_t which = (c + i) % std::size(kQuestions);
        const auto result = http.post("/v1/chat/completions", chat_body(kQuestions[which]).dump());
        if (!result.whole || Json::parse(result.body)["choices"][0]["message"]["content"] != expected[which]) ++wrong;
      }
    });
  for (std::thread& client : clients) client.join();
  CHECK(wrong == 0);
}

TEST_CASE("usage, cached tokens, several answers, seeds, stop strings and probabilities") {
  Endpoint endpoint;
  Json body = chat_body("What is ridge?", 8);
  const Json first = endpoint.post("/v1/chat/completions", body);
  CHECK(first["choices"][0]["finish_reason"] == "length");
  CHECK(first["usage"]["completion_tokens"] == 8);
  CHECK(first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0);
  const Json again = endpoint.post("/v1/chat/completions", body);
  CHECK(again["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() ==
        first["usage"]["prompt_tokens"].get<int>() - 1);
  body["stream_options"] = {{"include_usage", true}};
  CHECK(stream(endpoint, body).usage["total_tokens"] == first["usage"]["total_tokens"]);
  body["stream_options"] = {{"continuous_usage_stats", true}};
  body["stream"] = true;
  const std::string events = endpoint.client().post("/v1/chat/completions", body.dump()).body;
  for (const char* count : {"0", "1", "7", "8"})
    CHECK_MESSAGE(events.find(fmt::format("\"completion_tokens\":{},", count)) != std::string::npos, count);
  body.erase("stream_options");
  body.erase("stream");

  body["temperature"] = 1.5;
  body["seed"] = 5;
  body["n"] = 3;
  const Json several = endpoint.post("/v1/chat/completions", body);
  REQUIRE(several["choices"].size() == 3);
  CHECK(several["choices"] == endpoint.post("/v1/chat/completions", body)["choices"]);
  body["n"] = 1;
  body["seed"] = 6;
  CHECK(endpoint.post("/v1/chat/completions", body)["choices"][0]["message"] == several["choices"][1]["message"]);

  const std::string whole =
      endpoint.post("/v1/chat/completions", chat_body("What is ridge?"))["choices"][0]["message"]["content"];
  body = chat_body("What is ridge?");
  body["stop"] = whole.substr(10, 5);
  const Json stopped = endpoint.post("/v1/chat/completions", body);
  CHECK(stopped["choices"][0]["message"]["content"] == whole.substr(0, whole.find(whole.substr(10, 5))));
  CHECK(stopped["choices"][0]["finish_reason"] == "stop");

  body = chat_body("What is ridge?", 3);
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const Json likely = endpoint.post("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"];
  REQUIRE(likely.size() == 3);
  CHECK(likely[0]["top_logprobs"].size() == 2);
  CHECK(likely[0]["top_logprobs"][0]["logprob"] == likely[0]["logprob"]);
  std::string text;
  for (const Json& token : likely) text += token["token"];
  CHECK(whole.starts_with(text));
}

TEST_CASE("logit_bias keeps tokens out of an answer and brings others into it") {
  const Endpoint endpoint;
  const auto token_of = [&](const char* text) {
    return endpoint.post("/tokenize", {{"content", text}})["tokens"][0].get<int32_t>();
  };
  const std::string x = std::to_string(token_of("x"));
  Json body = chat_body("What is ridge?", 6);
  body["logit_bias"] = {{x, 100}};
  const Json forced = endpoint.post("/v1/chat/completions", body)["choices"][0];
  CHECK(forced["message"]["content"].get<std::string>().ends_with("xxxxx"));
  body["logit_bias"][x] = -100;
  const std::string free = endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"];
  const int32_t first = endpoint.post("/tokenize", {{"content", free}})["tokens"][0];
  body["logit_bias"][std::to_string(first)] = -100;
  CHECK(endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] != free);
  for (const Json& as_text : {Json{{"x", 100}}, Json::array({Json::array({"x", 100})})}) {
    body["logit_bias"] = as_text;
    CHECK(endpoint.post("/v1/chat/completions", body)["choices"][0] == forced);
  }

  const auto error = [&](const Json& bias) {
    body["logit_bias"] = bias;
    return endpoint.post("/v1/chat/completions", body, 400)["error"]["message"].get<std::string>();
  };
  CHECK(error({{x, 101}}) == "logit_bias." + x + ": expected a number from -100 to 100");
  CHECK(error({{"99999999999", 1}}).starts_with("logit_bias: expected token ids"));
  CHECK(error({{"9999999", 1}}).find("outside the vocabulary") != std::string::npos);
}

TEST_CASE("a request's greedy or seeded answer is the same alone and among 31 others") {
  const Endpoint endpoint([] { return tests::open_history({.streams = 32, .context = 512}); });
  std::vector<Json> bodies;
  for (int i = 0; i < 32; ++i) {
    bodies.push_back(chat_body(kQuestions[i % std::size(kQuestions)], 12));
    bodies.back()["temperature"] = i % 3 * 0.7;
    bodies.back()["seed"] = i;
  }
  const auto content = [&](int i) {
    return endpoint.post("/v1/chat/completions", bodies[i])["choices"][0]["message"]["content"];
  };
  std::vector<Json> alone, together(bodies.size());
  for (int i = 0; i < 32; ++i) alone.push_back(content(i));
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i) clients.emplace_back([&, i] { together[i] = content(i); });
  for (std::thread& client : clients) client.join();
  CHECK(together == alone);
}

TEST_CASE("a conversation's next turn continues the tokens of the answer, however the model wrote it") {
  Endpoint endpoint;
  for (const int seed : {1, 2, 3, 4}) {
    Json body = chat_body("What is ridge?", 20);
    body["temperature"] = 1.5; // text that tokenizes differently
    body["seed"] = seed;
    const Json first = endpoint.post("/v1/chat/completions", body);
    body["messages"].push_back(first["choices"][0]["message"]);
    body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
    const Json second = endpoint.post("/v1/chat/completions", body);
    // The last token was not evaluated.
    CHECK(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() ==
          first["usage"]["total_tokens"].get<int>() - 1);
  }
}

TEST_CASE("an answer held to a schema is JSON of that schema") {
  Endpoint endpoint;
  Json body = chat_body("Give me JSON.", 200);
  body["temperature"] = 2;
  body["seed"] = 1;
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "point"},
        {"schema",
         {{"type", "object"},
          {"properties", {{"name", {{"type", "string"}, {"maxLength", 8}}}, {"kind", {{"enum", {"a", "b"}}}}}},
          {"required", {"name", "kind"}}}}}}};
  const Json reply = endpoint.post("/v1/chat/completions", body);
  const Json answer = Json::parse(reply["choices"][0]["message"]["content"].get<std::string>());
  CHECK(answer["name"].is_string());
  CHECK((answer["kind"] == "a" || answer["kind"] == "b"));
}

TEST_CASE("texts and tokens are continued as they are") {
  Endpoint endpoint;
  const Json body = {{"prompt", "ridge is"}, {"max_tokens", 6}, {"temperature", 0}};
  const Json reply = endpoint.post("/v1/completions", body);
  const std::string text = reply["choices"][0]["text"];
  CHECK(!text.empty());
  const Json tokens = endpoint.post("/tokenize", {{"content", "ridge is"}, {"add_special", true}})["tokens"];
  const Json lists = {{"prompt", {tokens, tokens}}, {"max_tokens", 6}, {"temperature", 0}};
  const Json both = endpoint.post("/v1/completions", lists);
  REQUIRE(both["choices"].size() == 2);
  for (const Json& choice : both["choices"]) CHECK(choice["text"] == text);
  const Json plain = endpoint.post("/tokenize", {{"content", "ridge is"}})["tokens"];
  CHECK(endpoint.post("/detokenize", {{"tokens", plain}})["content"] == "ridge is");
}

TEST_CASE("clients of vLLM's server tokenize here") {
  const Endpoint endpoint;
  const Json info = Json::parse(endpoint.get("/tokenizer_info"));
  const text::Tokenizer& tokenizer = *endpoint.model.tokenizer;
  CHECK(info["eos_token"] == std::string(tokenizer.token_text(tokenizer.eos())));
  CHECK(info["chat_template"] == std::string(endpoint.service.chat_template().source()));
  const Json whole = endpoint.post("/tokenize", {{"prompt", "ridge is"}});
  CHECK(whole["tokens"] == tokenizer.encode("ridge is", {.add_special = true, .parse_special = true}));
  CHECK(whole["count"] == whole["tokens"].size());
  const Json plain = endpoint.post("/tokenize", {{"prompt", "ridge is"}, {"add_special_tokens", false}})["tokens"];
  CHECK(plain == tokenizer.encode("ridge is", {.add_special = false}));
  CHECK(endpoint.post("/detokenize", {{"tokens", plain}})["prompt"] == "ridge is");
}

TEST_CASE("text of a message never becomes a control token") {
  Endpoint endpoint;
  const int32_t end = endpoint.model.tokenizer->eos();
  const std::string marker(endpoint.model.tokenizer->token_text(end));
  const Json body = chat_body("a" + marker + "b");
  const std::string prompt = endpoint.post("/apply-template", body)["prompt"];
  CHECK(prompt.find("a" + marker + "b") != std::string::npos);
  const server::Generation generation = endpoint.service.chat(body["messages"], nullptr, Json::object());
  const std::vector<int32_t> clean = endpoint.service.chat(chat_body("ab")["messages"], nullptr, Json::object()).prompt;
  CHECK(std::ranges::count(generation.prompt, end) == std::ranges::count(clean, end));
}

TEST_CASE("what is wrong with a request is said in the API's own form") {
  const Endpoint endpoint;
  const auto message = [&](const Json& body) {
    return endpoint.post("/v1/chat/completions", body, 400)["error"]["message"].get<std::string>();
  };
  CHECK(message(Json::object()) == "messages is missing");
  CHECK(message({{"messages", Json::array()}}) == "messages: expected a list of messages");
  CHECK(message({{"messages", {{{"role", "user"}, {"content", 3}}}}}) == "messages[0].content: expected text");
  CHECK(message({{"messages", {{{"role", "robot"}, {"content", "hi"}}}}}) ==
        "messages[0].role: unknown role \"robot\"; expected system, developer, user, assistant or tool");
  Json body = chat_body("hi");
  body["temperature"] = "hot";
  CHECK(message(body) == "temperature: expected a number from 0 to 100");
  body["temperature"] = 0;
  for (const Json& n : Json{0, 17, 1e300, -1, 1.5}) {
    body["n"] = n;
    CHECK(message(body) == "n: expected a whole number from 1 to 16");
  }
  body["n"] = 1;
  body["max_tokens"] = 1e18;
  CHECK(message(body).starts_with("max_tokens: expected a whole number"));
  body["max_tokens"] = 1;
  body["messages"][0]["content"] = std::string(100000, 'x');
  CHECK(message(body).find("context length is 1024 tokens") != std::string::npos);
  const auto error = [&](const std::string& text, int status = 400) {
    return endpoint.post_text("/v1/chat/completions", text, status)["error"]["message"].get<std::string>();
  };
  CHECK(error("{\"messages\": ") == "the body is not valid JSON: error at byte 14");
  CHECK(error("[]") == "the body is not a JSON object");
  CHECK(error("{\"messages\": \"\xff\"}").starts_with("the body is not valid JSON"));
  CHECK(error(std::string(100000, '[')).find("nests deeper") != std::string::npos);
  CHECK(error(R"({"max_tokens": 1e999, "messages": [{"role": "user"}]})") ==
        "max_tokens: expected a whole number from -1 to 2147483647");
  CHECK(error(std::string((size_t{32} << 20) + 1, ' '), 413).find("32 MiB") != std::string::npos);
  CHECK(endpoint.post("/v1/nothing", Json::object(), 404)["error"]["message"] == "no route POST /v1/nothing");
}

TEST_CASE("a body is JSON whatever it is called") { // curl -d labels it a form
  const Endpoint endpoint;
  const std::string text = chat_body("What is ridge?").dump();
  const Json answer = endpoint.post_text("/v1/chat/completions", text, 200)["choices"];
  for (const char* type : {"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""}) {
    const tests::HttpReply result =
        endpoint.client().post("/v1/chat/completions", text + std::string(20000, ' '), {{"Content-Type", type}});
    REQUIRE(result.whole);
    CHECK_MESSAGE(result.status == 200, type);
    CHECK_MESSAGE(Json::parse(result.body)["choices"] == answer, type);
  }
}

TEST_CASE("Anthropic's messages are answered as OpenAI's are, whole and as named events") {
  Endpoint endpoint;
  const std::string expected =
      endpoint.post("/v1/chat/completions", chat_body("What is ridge?"))["choices"][0]["message"]["content"];
  Json body = chat_body("What is ridge?");
  body["messages"][0]["content"] = {{{"type", "text"}, {"text", "What is "}}, {{"type", "text"}, {"text", "ridge?"}}};
  const Json reply = endpoint.post("/v1/messages", body);
  CHECK(reply["content"] == Json::array({{{"type", "text"}, {"text", expected}, {"citations", nullptr}}}));
  CHECK(reply["stop_reason"] == "end_turn");
  CHECK(reply["usage"]["input_tokens"].get<int>() + reply["usage"]["cache_read_input_tokens"].get<int>() ==
        endpoint.post("/v1/messages/count_tokens", body)["input_tokens"].get<int>());

  body["stop_sequences"] = {expected.substr(10, 5)};
  body["stream"] = true;
  const tests::HttpReply streamed = endpoint.client().post("/v1/messages", body.dump());
  REQUIRE(streamed.whole);
  std::istringstream lines(streamed.body);
  std::string text, names, last;
  Json end;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) {
      const std::string name = line.substr(7);
      if (name != last) names += name + " ";
      last = name;
    }
    if (!line.starts_with("data: ")) continue;
    const Json event = Json::parse(line.substr(6));
    CHECK(event["type"] == last);
    if (last == "content_block_delta") text += event["delta"]["text"];
    if (last == "message_delta") end = event;
  }
  CHECK(names ==
        "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ");
  CHECK(text == expected.substr(0, expected.find(expected.substr(10, 5))));
  CHECK(end["delta"]["stop_reason"] == "stop_sequence");
  CHECK(end["delta"]["stop_sequence"] == expected.substr(10, 5));

  const auto error = [&](const Json& wrong) { return endpoint.post("/v1/messages", wrong, 400); };
  body.erase("max_tokens");
  CHECK(error(body)["error"]["message"] == "max_tokens is missing");
  CHECK(error(body)["type"] == "error");
  body["messages"][0]["role"] = "robot";
  CHECK(error(body)["error"]["message"] ==
        "messages[0].role: unknown role \"robot\"; expected user, assistant or system");
}

TEST_CASE("Ollama's chats and texts are answered as OpenAI's are, whole and as lines") {
  Endpoint endpoint;
  const Json openai = endpoint.post("/v1/chat/completions", chat_body("What is ridge?"));
  const std::string expected = openai["choices"][0]["message"]["content"];
  const Json options = {{"temperature", 0}, {"num_predict", 40}};
  Json body = {{"model", "guide"},
               {"messages", {{{"role", "user"}, {"content", "What is ridge?"}}}},
               {"options", options},
               {"stream", false}};
  const Json reply = endpoint.post("/api/chat", body);
  CHECK(reply["message"]["content"] == expected);
  CHECK(reply["done_reason"] == "stop");
  CHECK(reply["prompt_eval_count"] == openai["usage"]["prompt_tokens"]);
  CHECK(reply["eval_count"] == openai["usage"]["completion_tokens"]);
  const Json text = {{"prompt", "What is ridge?"}, {"options", options}, {"stream", false}};
  CHECK(endpoint.post("/api/generate", text)["response"] == expected);

  body.erase("stream");
  const tests::HttpReply streamed = endpoint.client().post("/api/chat", body.dump());
  REQUIRE(streamed.whole);
  CHECK(streamed.header("Content-Type") == "application/x-ndjson");
  std::istringstream lines(streamed.body);
  std::string joined;
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = Json::parse(line);
    joined += last["message"]["content"];
  }
  CHECK(joined == expected);
  CHECK(last["done"] == true);

  body["format"] = "xml";
  CHECK(endpoint.post("/api/chat", body, 400)["error"].get<std::string>().starts_with("format: expected"));
  CHECK(Json::parse(endpoint.get("/api/tags"))["models"][0]["name"] == "guide");
  CHECK(endpoint.post("/api/show", {{"model", "guide"}})["details"]["format"] == "gguf");
}

TEST_CASE("a key is asked for everywhere but for the server's health") {
  const Endpoint endpoint(1, "secret");
  const auto status = [&](const char* path, const tests::HttpHeaders& headers) {
    return endpoint.client().get(path, headers).status;
  };
  CHECK(status("/health", {}) == 200);
  CHECK(status("/v1/models", {}) == 401);
  CHECK(status("/v1/models", {{"Authorization", "Bearer secre"}}) == 401);
  CHECK(status("/v1/models", {{"Authorization", "Bearer secrets"}}) == 401);
  CHECK(status("/v1/models", {{"Authorization", "secret"}}) == 401);
  CHECK(status("/v1/models", {{"Authorization", "Bearer secret"}}) == 200);
  CHECK(status("/v1/models", {{"x-api-key", "secret"}}) == 200);
}

TEST_CASE("clients that go away leave no request running") {
  Endpoint endpoint([] { return tests::open_history({.streams = 1, .context = 1 << 20}); });
  const auto running = [&] {
    const engine::Scheduler::Counts counts = endpoint.service.scheduler().counts();
    return counts.running + counts.waiting;
  };
  for (const bool streamed : {false, true}) {
    Json body = chat_body("What is ridge?", -1);
    body.erase("max_tokens");
    body["ignore_eos"] = true; // would generate a million tokens
    body["stream"] = streamed;
    body["n"] = 4;
    tests::Socket socket(endpoint.server.port());
    REQUIRE(socket.request("POST /v1/chat/completions", body.dump()));
    REQUIRE(tests::eventually("the answers to begin", [&] { return running() > 0; }));
    socket.close();
    CHECK(tests::eventually("the answers to be given up", [&] { return running() == 0; }));
  }
}

TEST_CASE("a server that stops lets its requests end") {
  auto endpoint = std::make_unique<Endpoint>();
  Json reply;
  const int port = endpoint->server.port();
  std::thread client([&] {
    tests::HttpClient http(port);
    const auto result = http.post("/v1/chat/completions", chat_body("What is ridge?", 300).dump());
    if (result.whole) reply = Json::parse(result.body);
  });
  REQUIRE(tests::eventually("the request to be there", [&] {
    const engine::Scheduler::Counts counts = endpoint->service.scheduler().counts();
    return counts.running + counts.ended > 0;
  }));
  endpoint.reset();
  client.join();
  REQUIRE(reply.contains("choices"));
  CHECK(reply["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("an answer is whole or not there, whenever the server is told to stop") {
  Endpoint endpoint(1);
  int whole = 0;
  for (int round = 0; round < 300; ++round) {
    server::Server server(endpoint.service, {.port = 0});
    std::thread thread([&] { server.run(); });
    tests::Socket(server.port()).ask("GET /health");
    tests::Socket socket(server.port());
    REQUIRE(socket.request("POST /v1/completions", R"({"prompt": "ridge", "max_tokens": 1, "stream": true})"));
    std::string answer;
    if (round % 2 == 0)
      for (int turn = 0; turn < 10 * (round % 50); ++turn) std::this_thread::yield();
    else
      answer = socket.next(static_cast<size_t>(1 + round % 50 * 4));
    server.stop();
    answer += socket.rest();
    thread.join();
    const bool done = answer.find("data: [DONE]") != std::string::npos;
    whole += done;
    CAPTURE(answer);
    CHECK((done || answer.empty() || answer.find("the server is about to stop") != std::string::npos));
  }
  CHECK(whole >= 150);
}

TEST_CASE("the server says what it does") {
  const Endpoint endpoint(2);
  endpoint.post("/v1/chat/completions", chat_body("What is ridge?", 5));
  const std::string metrics = endpoint.get("/metrics");
  CHECK(metrics.find("\nridge_requests_total 1\n") != std::string::npos);
  CHECK(metrics.find("\nridge_generated_tokens_total 5\n") != std::string::npos);
  CHECK(Json::parse(endpoint.get("/slots")).size() == 2);
  const Json properties = Json::parse(endpoint.get("/props"));
  CHECK(properties["n_ctx"] == 1024);
  CHECK(properties["default_generation_settings"]["params"]["samplers"].size() == 10);
  CHECK(properties["fills_in"] == false);
  CHECK(properties["model_alias"] == "guide");
  CHECK(properties["eos_token"] == endpoint.model.tokenizer->token_text(endpoint.model.tokenizer->eos()));
  CHECK(endpoint.get("/v1/health") == endpoint.get("/health"));
  CHECK(Json::parse(endpoint.get("/version"))["version"].is_string());
  CHECK(Json::parse(endpoint.get("/v1/models"))["data"][0]["object"] == "model");
  CHECK(Json::parse(endpoint.get("/v1/models"))["models"][0]["capabilities"][0] == "completion");
  CHECK(Json::parse(endpoint.get("/v1/models"))["data"][0]["meta"]["n_params"].get<int64_t>() > 0);
  CHECK_THROWS_AS(server::Server(const_cast<server::Service&>(endpoint.service), {.port = endpoint.server.port()}),
                  Error);
}

TEST_CASE("a conversation that lost its stream continues from the prefix cache, also of a server before") {
  const tests::TemporaryFolder folder;
  const auto prefixes = [&] { return engine::PrefixSettings{1 << 28, folder.path(), 1 << 28, "the guide", {}}; };
  const Json body = chat_body("What is ridge, how do I chat with a model, and what is a format of weights?", 8);
  Json answer;
  {
    Endpoint endpoint([] { return open_guide(1); }, {}, nullptr, prefixes());
    answer = endpoint.post("/v1/chat/completions", body)["choices"][0];
    endpoint.post("/v1/chat/completions", chat_body("How do I chat with a model that is on this machine?", 8));
    const Json again = endpoint.post("/v1/chat/completions", body);
    CHECK(again["choices"][0] == answer);
    CHECK(again["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() ==
          again["usage"]["prompt_tokens"].get<int>() - 1);
    const std::string metrics = endpoint.get("/metrics");
    CHECK(metrics.find("ridge_prefix_cache_tokens_total 0") == std::string::npos);
    CHECK(metrics.find("ridge_prefix_disk_tokens_total 0") != std::string::npos);
    CHECK(metrics.find("ridge_prefix_cache_bytes 0") == std::string::npos);
  }
  Endpoint endpoint([] { return open_guide(1); }, {}, nullptr, prefixes());
  CHECK(endpoint.post("/v1/chat/completions", body)["choices"][0] == answer);
  CHECK(endpoint.get("/metrics").find("ridge_prefix_disk_tokens_total 0") == std::string::npos);
}
