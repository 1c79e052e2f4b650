// Random tools: at temperature 2 every complete call and answer matches its schema. RIDGE_CALL_SEEDS sets the number of
// requests, with three tools each; 1,000 take minutes.
#include "support/http/endpoint.h"
#include "support/json_validator.h"
#include "support/random_tools.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

using namespace ridge;
using server::Json;
using tests::Endpoint;

namespace {

struct Counts {
  uint64_t calls = 0, answers = 0, cut = 0;
};

const Json kAnswer = {{"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}, {"required", {"n"}}};

// Half of the requests require a call.
Json request(uint64_t seed, const std::vector<text::Tool>& tools, int64_t max_tokens) {
  Json body = tests::chat_body("How is the weather?", max_tokens);
  body["temperature"] = 2;
  body["seed"] = seed;
  for (const text::Tool& tool : tools)
    body["tools"].push_back({{"type", "function"}, {"name", tool.name}, {"parameters", tool.parameters}});
  if (seed % 2)
    body["tool_choice"] = "required";
  else
    body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", kAnswer}}}};
  return body;
}

void check_call(const Json& function, const std::vector<text::Tool>& tools) {
  CAPTURE(function.dump());
  const auto tool = std::ranges::find(tools, function["name"].get<std::string>(), &text::Tool::name);
  REQUIRE(tool != tools.end());
  CAPTURE(tool->parameters.dump());
  const Json arguments = Json::parse(function["arguments"].get<std::string>(), nullptr, false);
  REQUIRE(!arguments.is_discarded());
  CHECK(tests::is_valid(arguments, tool->parameters));
}

void check_choice(const Json& choice, const std::vector<text::Tool>& tools, Counts& counts) {
  const Json& message = choice["message"];
  if (choice["finish_reason"] == "length") {
    ++counts.cut;
  } else if (choice["finish_reason"] == "stop") {
    ++counts.answers;
    CHECK(tests::is_valid(Json::parse(message["content"].get<std::string>()), kAnswer));
  } else {
    CHECK(choice["finish_reason"] == "tool_calls");
    REQUIRE(!message["tool_calls"].empty());
    for (const Json& call : message["tool_calls"]) check_call(call["function"], tools);
    counts.calls += message["tool_calls"].size();
  }
}

void check_random_tools(const Endpoint& endpoint, int64_t max_tokens) {
  Counts counts;
  const uint64_t seeds = tests::call_seeds(6);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    tests::Random random{seed};
    const std::vector<text::Tool> tools = tests::random_tools(random);
    const Json reply = endpoint.post("/v1/chat/completions", request(seed, tools, max_tokens));
    check_choice(reply["choices"][0], tools, counts);
  }
  MESSAGE(seeds, " requests: ", counts.calls, " calls, ", counts.answers, " other answers, ", counts.cut, " cut off");
  CHECK(counts.calls + counts.answers > 0);
}

} // namespace

TEST_CASE("whatever the guide calls of random tools fits their schemas, and any other answer the schema for it") {
  check_random_tools(Endpoint(), 300);
}

TEST_CASE("whatever a model of random weights calls of random tools fits their schemas") {
  const tests::TemporaryFolder folder;
  tests::TinyModel{.context = 8192}.write(folder / "random.gguf");
  check_random_tools(Endpoint([&] { return tests::open_exact(folder / "random.gguf", 1); }), 2000);
}
