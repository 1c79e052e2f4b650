// The guide's calls in all three APIs.
#include "support/http/endpoint.h"

#include <set>
#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

const Json kSchema = Json::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 12}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"]})");

Json weather_tool() {
  return {{"type", "function"},
          {"function", {{"name", "get_weather"}, {"description", "The weather of a city"}, {"parameters", kSchema}}}};
}
Json clock_tool() { return {{"type", "function"}, {"function", {{"name", "clock"}}}}; }

Json tool_body(int seed) {
  Json body = chat_body("How is the weather?", 400);
  body["temperature"] = 2;
  body["seed"] = seed;
  body["tools"] = {weather_tool(), clock_tool()};
  body["tool_choice"] = "required";
  return body;
}

void check_arguments(const std::string& name, const Json& arguments) {
  REQUIRE(arguments.is_object());
  if (name == "clock") {
    CHECK(arguments.empty());
    return;
  }
  CHECK(name == "get_weather");
  CHECK(arguments["city"].is_string());
  CHECK((arguments["unit"] == "C" || arguments["unit"] == "F"));
  for (const auto& [key, value] : arguments.items()) CHECK(kSchema["properties"].contains(key));
}

Json& schema_of(Json& body) { return body["response_format"]["json_schema"]["schema"]; }

std::vector<Json> events_of(const Endpoint& endpoint, const std::string& path, Json body) {
  body["stream"] = true;
  tests::HttpClient http = endpoint.client();
  const tests::HttpReply reply = http.post(path, body.dump());
  REQUIRE(reply.whole);
  CHECK(reply.status == 200);
  std::vector<Json> events;
  std::istringstream lines(reply.body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("data: ")) line.erase(0, 6);
    if (line.starts_with("{")) events.push_back(Json::parse(line));
  }
  return events;
}

} // namespace

TEST_CASE("a required call is written, whole or streamed, and fits its schema") {
  const Endpoint endpoint;
  std::set<std::string> names;
  for (int seed = 0; seed < 2; ++seed) {
    CAPTURE(seed);
    const Json body = tool_body(seed);
    const Json choice = endpoint.post("/v1/chat/completions", body)["choices"][0];
    const Json& message = choice["message"];
    if (choice["finish_reason"] == "length") continue;
    CHECK(choice["finish_reason"] == "tool_calls");
    CHECK(message["content"].is_null());
    REQUIRE(!message["tool_calls"].empty());
    std::set<std::string> ids;
    for (const Json& call : message["tool_calls"]) {
      ids.insert(call["id"]);
      names.insert(call["function"]["name"]);
      check_arguments(call["function"]["name"], Json::parse(call["function"]["arguments"].get<std::string>()));
    }
    CHECK(ids.size() == message["tool_calls"].size());

    Json streamed = Json::array();
    std::string finish;
    for (const Json& event : events_of(endpoint, "/v1/chat/completions", body)) {
      const Json& one = event["choices"][0];
      if (one["finish_reason"].is_string()) finish = one["finish_reason"];
      if (!one["delta"].contains("tool_calls")) continue;
      for (const Json& delta : one["delta"]["tool_calls"]) {
        if (delta.contains("id")) {
          CHECK(delta["index"] == streamed.size());
          CHECK(delta["type"] == "function");
          streamed.push_back(delta["function"]);
        } else {
          Json& arguments = streamed[delta["index"].get<size_t>()]["arguments"];
          arguments = arguments.get<std::string>() + delta["function"]["arguments"].get<std::string>();
        }
      }
    }
    CHECK(finish == "tool_calls");
    REQUIRE(streamed.size() == message["tool_calls"].size());
    for (size_t i = 0; i < streamed.size(); ++i) CHECK(streamed[i] == message["tool_calls"][i]["function"]);
  }
  CHECK(!names.empty());
}

TEST_CASE("a named tool is the one that is called, and only once without parallel calls") {
  const Endpoint endpoint;
  for (int seed = 0; seed < 2; ++seed) {
    Json body = tool_body(seed);
    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "clock"}}}};
    body["parallel_tool_calls"] = false;
    const Json choice = endpoint.post("/v1/chat/completions", body)["choices"][0];
    REQUIRE(choice["message"]["tool_calls"].size() == 1);
    const Json function = choice["message"]["tool_calls"][0]["function"];
    CHECK(function["name"] == "clock");
    check_arguments("clock", Json::parse(function["arguments"].get<std::string>()));
  }
}

TEST_CASE("with a schema for the answer, too, it is JSON or calls") {
  const Endpoint endpoint;
  const Json schema = {{"type", "object"}, {"properties", {{"kind", {{"enum", {"a", "b"}}}}}}, {"required", {"kind"}}};
  int calls = 0, answers = 0;
  for (int seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Json body = tool_body(seed);
    body["tool_choice"] = "auto";
    body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "kind"}, {"schema", schema}}}};
    const Json choice = endpoint.post("/v1/chat/completions", body)["choices"][0];
    const Json& message = choice["message"];
    if (choice["finish_reason"] == "tool_calls") {
      ++calls;
      CHECK(message["content"].is_null());
      for (const Json& call : message["tool_calls"])
        check_arguments(call["function"]["name"], Json::parse(call["function"]["arguments"].get<std::string>()));
    } else if (choice["finish_reason"] == "stop") {
      ++answers;
      const Json kind = Json::parse(message["content"].get<std::string>())["kind"];
      CHECK((kind == "a" || kind == "b"));
    }
  }
  CHECK(calls + answers > 0);

  Json ollama = {{"stream", false}, {"options", {{"num_predict", 400}, {"temperature", 0}}}, {"format", schema}};
  ollama["messages"] = chat_body("Which kind?")["messages"];
  ollama["tools"] = Json::array({clock_tool()});
  const Json message = endpoint.post("/api/chat", ollama)["message"];
  CHECK((message.contains("tool_calls") || Json::parse(message["content"].get<std::string>()).contains("kind")));
  Json anthropic = chat_body("Which kind?", 200);
  anthropic["output_config"]["format"] = {{"type", "json_schema"}, {"schema", schema}};
  const Json reply = endpoint.post("/v1/messages", anthropic);
  CHECK(Json::parse(reply["content"][0]["text"].get<std::string>()).contains("kind"));
}

TEST_CASE("of several tools some may be allowed, and all stay in the prompt") {
  const Endpoint endpoint;
  Json body = tool_body(5);
  const Json clock = {{"type", "function"}, {"function", {{"name", "clock"}}}};
  body["tool_choice"] = {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "required"}, {"tools", {clock}}}}};
  const Json reply = endpoint.post("/v1/chat/completions", body);
  for (const Json& call : reply["choices"][0]["message"]["tool_calls"]) CHECK(call["function"]["name"] == "clock");
  body["tool_choice"] = "required";
  CHECK(endpoint.post("/v1/chat/completions", body)["usage"]["prompt_tokens"] == reply["usage"]["prompt_tokens"]);
  Json response = {{"input", "How late is it?"}, {"max_output_tokens", 400}, {"temperature", 0}};
  response["tools"] = {{{"type", "function"}, {"name", "clock"}}, {{"type", "function"}, {"name", "other"}}};
  const Json flat = {{"type", "function"}, {"name", "clock"}};
  response["tool_choice"] = {{"type", "allowed_tools"}, {"mode", "required"}, {"tools", {flat}}};
  CHECK(endpoint.post("/v1/responses", response)["output"][0]["name"] == "clock");
  response["tool_choice"]["tools"] = {{{"type", "function"}, {"name", "third"}}};
  CHECK(endpoint.post("/v1/responses", response, 400)["error"]["message"] == "tool_choice: unknown tool third");
  response["tool_choice"]["tools"] = Json::array();
  CHECK(endpoint.post("/v1/responses", response, 400)["error"]["message"] ==
        "tool_choice.tools: expected at least one");
}

TEST_CASE("tools that the guide does not call leave its answer as text, and none are left out of the prompt") {
  const Endpoint endpoint;
  Json body = chat_body("What is ridge?");
  const Json plain = endpoint.post("/v1/chat/completions", body);
  body["tools"] = Json::array({clock_tool()});
  body["tool_choice"] = "none";
  const Json none = endpoint.post("/v1/chat/completions", body);
  CHECK(none["choices"][0]["message"] == plain["choices"][0]["message"]);
  CHECK(none["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]);
  body["tool_choice"] = "auto";
  const Json free = endpoint.post("/v1/chat/completions", body);
  CHECK(free["choices"][0]["message"]["content"].is_string());
  CHECK(!free["choices"][0]["message"].contains("tool_calls"));
  CHECK(free["usage"]["prompt_tokens"].get<int>() > plain["usage"]["prompt_tokens"].get<int>());
}

TEST_CASE("a conversation goes on after a call and its result, in all three forms") {
  const Endpoint endpoint;
  const std::string call_id = "call_1";
  Json body = chat_body("How late is it?", 20);
  body["tools"] = Json::array({clock_tool()});
  const Json call = {{"id", call_id}, {"type", "function"}, {"function", {{"name", "clock"}, {"arguments", "{}"}}}};
  body["messages"].push_back({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", call_id}, {"content", "half past nine"}});
  const Json openai = endpoint.post("/v1/chat/completions", body);
  const std::string prompt = endpoint.post("/apply-template", body)["prompt"];
  CHECK(prompt.find("<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>") != std::string::npos);
  CHECK(prompt.find("half past nine") != std::string::npos);

  Json anthropic = {{"max_tokens", 20}, {"temperature", 0}};
  anthropic["tools"] = {{{"name", "clock"}, {"input_schema", {{"type", "object"}}}}};
  anthropic["messages"] = Json::parse(R"([{"role": "user", "content": "How late is it?"},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "clock", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "half past nine"}]}])");
  const Json second = endpoint.post("/v1/messages", anthropic);
  CHECK(second["content"][0]["text"] == openai["choices"][0]["message"]["content"]);

  Json ollama = {{"stream", false}, {"options", {{"num_predict", 20}, {"temperature", 0}}}};
  ollama["tools"] = Json::array({clock_tool()});
  ollama["messages"] = Json::parse(R"([{"role": "user", "content": "How late is it?"},
      {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "clock", "arguments": {}}}]},
      {"role": "tool", "tool_name": "clock", "content": "half past nine"}])");
  const Json third = endpoint.post("/api/chat", ollama);
  CHECK(third["message"]["content"] == openai["choices"][0]["message"]["content"]);
}

TEST_CASE("Anthropic's clients get blocks of type tool_use, whole and as events") {
  const Endpoint endpoint;
  Json body = chat_body("How is the weather?", 400);
  body["tools"] = {{{"name", "get_weather"}, {"description", "d"}, {"input_schema", kSchema}}};
  body["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
  const Json reply = endpoint.post("/v1/messages", body);
  CHECK(reply["stop_reason"] == "tool_use");
  REQUIRE(reply["content"].size() == 1);
  CHECK(reply["content"][0]["type"] == "tool_use");
  check_arguments(reply["content"][0]["name"], reply["content"][0]["input"]);

  std::string arguments, reason;
  Json block;
  for (const Json& event : events_of(endpoint, "/v1/messages", body)) {
    if (event["type"] == "content_block_start") block = event["content_block"];
    if (event["type"] == "content_block_delta") {
      CHECK(event["delta"]["type"] == "input_json_delta");
      arguments += event["delta"]["partial_json"];
    }
    if (event["type"] == "message_delta") reason = event["delta"]["stop_reason"];
  }
  CHECK(block["name"] == "get_weather");
  CHECK(block["input"] == Json::object());
  CHECK(Json::parse(arguments) == reply["content"][0]["input"]);
  CHECK(reason == "tool_use");
}

TEST_CASE("Ollama's clients get whole calls, and what is wrong with tools is said in the API's form") {
  const Endpoint endpoint;
  Json body = {{"stream", false}, {"options", {{"num_predict", 400}, {"temperature", 0}}}};
  body["messages"] = chat_body("How is the weather?")["messages"];
  body["tools"] = Json::array({weather_tool()});
  body["tool_choice"] = "required";
  const Json reply = endpoint.post("/api/chat", body);
  REQUIRE(!reply["message"]["tool_calls"].empty());
  const Json function = reply["message"]["tool_calls"][0]["function"];
  check_arguments(function["name"], function["arguments"]);
  Json streamed;
  for (const Json& line : events_of(endpoint, "/api/chat", body))
    if (line["message"].contains("tool_calls")) streamed = line["message"]["tool_calls"];
  CHECK(streamed[0]["function"] == function);

  const auto message = [&](const Json& tools, const Json& choice) {
    Json wrong = chat_body("hi");
    wrong["tools"] = tools;
    wrong["tool_choice"] = choice;
    return endpoint.post("/v1/chat/completions", wrong, 400)["error"]["message"].get<std::string>();
  };
  CHECK(message(Json::array({{{"type", "function"}}}), "auto").starts_with("tools[0].name: expected at most"));
  CHECK(message(Json::array({clock_tool(), clock_tool()}), "auto").starts_with("tools[1].function.name: another tool"));
  CHECK(message(Json::array({{{"type", "web_search"}}}), "auto").find("type \"function\"") != std::string::npos);
  CHECK(message(Json::array({clock_tool()}), "always") == "tool_choice: expected auto, none, required or a function");
  CHECK(message(Json::array({clock_tool()}), {{"type", "function"}, {"name", "other"}}) ==
        "tool_choice: unknown tool other");
  CHECK(message(nullptr, "required") == "tool_choice: requires tools");
  Json tool = weather_tool();
  tool["function"]["parameters"]["properties"]["days"]["type"] = 5;
  CHECK(
      message(Json::array({clock_tool(), tool}), "auto")
          .starts_with("tools[1].function.parameters: invalid schema for get_weather: JSON schema, #/properties/days: "
                       "`type` must be one or more of"));
  Json deep = chat_body("hi");
  const std::string arguments = // overflows recursive code
      "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  deep["messages"].push_back(
      {{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}});
  CHECK(endpoint.post("/apply-template", deep)["prompt"].get<std::string>().find(arguments) != std::string::npos);
}

TEST_CASE("what grammars leave out of schemas is checked behind the answer, and counted") {
  const Endpoint endpoint;
  const Json schema = Json::parse(R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"],
                                      "not": {"required": ["a"]}})");
  const auto misses = [&](int count) {
    return endpoint.get("/metrics").find(fmt::format("\nridge_schema_misses_total {}\n", count)) != std::string::npos;
  };
  CHECK(misses(0));
  Json body = tool_body(1);
  body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", schema}}}}};
  body["parallel_tool_calls"] = false;
  const Json call = endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"][0]["function"];
  CHECK(Json::parse(call["arguments"].get<std::string>()) == Json{{"a", 1}});
  CHECK(misses(1));
  Json answer = chat_body("hi", 400);
  answer["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "a"}, {"schema", schema}}}};
  endpoint.post("/v1/chat/completions", answer);
  CHECK(misses(2));
  Json generate = {{"prompt", "hi"}, {"stream", false}, {"options", {{"num_predict", 400}}}, {"format", schema}};
  endpoint.post("/api/generate", generate);
  CHECK(misses(3));
  schema_of(answer).erase("not");
  endpoint.post("/v1/chat/completions", answer);
  CHECK(misses(3));
}

TEST_CASE("text of tools, arguments and results never becomes a control token") {
  const Endpoint endpoint;
  const int32_t end = endpoint.model.tokenizer->eos();
  const std::string marker(endpoint.model.tokenizer->token_text(end));
  const auto prompt = [&](const std::string& text) {
    engine::ToolUse use{.definitions = Json::array({clock_tool()})};
    use.definitions[0]["function"]["description"] = "d" + text;
    use.tools = {{"clock", {{"type", "object"}, {"properties", Json::object()}}}};
    Json messages = chat_body("hi")["messages"];
    const Json arguments = {{"a", text}};
    messages.push_back({{"role", "assistant"},
                        {"content", ""},
                        {"tool_calls", {{{"id", "1"}, {"function", {{"name", "clock"}, {"arguments", arguments}}}}}}});
    messages.push_back({{"role", "tool"}, {"tool_call_id", "1"}, {"name", "clock"}, {"content", "r" + text}});
    return endpoint.service.chat(messages, &use, Json::object());
  };
  const server::Generation with = prompt(marker), without = prompt("");
  CHECK(with.chat_prompt->bytes().find("r" + marker) != std::string::npos);
  CHECK(std::ranges::count(with.prompt, end) == std::ranges::count(without.prompt, end));
}
