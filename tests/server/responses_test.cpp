// POST /v1/responses: answers equal a chat's; events; continuation.
#include "engine/chat/compaction.h"
#include "server/json/api_error.h"
#include "server/models/response_store.h"
#include "server/responses/compaction.h"
#include "server/responses/response_items.h"
#include "support/http/endpoint.h"

#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

const Json kBody = {{"input", "What is ridge?"}, {"max_output_tokens", 40}, {"temperature", 0}};

std::string content_of_chat(const Endpoint& endpoint, const Json& body) {
  return endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"];
}

std::vector<Json> events_of(const Endpoint& endpoint, Json body) {
  body["stream"] = true;
  const tests::HttpReply reply = endpoint.client().post("/v1/responses", body.dump());
  REQUIRE(reply.whole);
  std::vector<Json> events;
  std::istringstream lines(reply.body);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with("data: ")) continue;
    events.push_back(Json::parse(line.substr(6)));
    CHECK(events.back()["type"] == name);
    CHECK(events.back()["sequence_number"] == events.size() - 1);
  }
  return events;
}

} // namespace

TEST_CASE("a response is what a chat answers, whole or as events") {
  const Endpoint endpoint;
  const std::string expected = content_of_chat(endpoint, chat_body("What is ridge?"));
  const Json response = endpoint.post("/v1/responses", kBody);
  CHECK(response["object"] == "response");
  CHECK(response["status"] == "completed");
  REQUIRE(response["output"].size() == 1);
  CHECK(response["output"][0]["content"][0]["text"] == expected);
  CHECK(response["usage"]["total_tokens"].get<int>() ==
        response["usage"]["input_tokens"].get<int>() + response["usage"]["output_tokens"].get<int>());

  const std::vector<Json> events = events_of(endpoint, kBody);
  std::string names, last, text;
  for (const Json& event : events) {
    if (event["type"] != last) names += event["type"].get<std::string>().substr(9) + " ";
    last = event["type"];
    if (last == "response.output_text.delta") text += event["delta"];
    if (last == "response.output_text.done") CHECK(event["text"] == text);
    if (last == "response.output_item.done") CHECK(event["item"]["content"][0]["text"] == text);
  }
  CHECK(names == "created in_progress output_item.added content_part.added output_text.delta output_text.done "
                 "content_part.done output_item.done completed ");
  CHECK(text == expected);
  CHECK(events.back()["response"]["output"][0]["content"][0]["text"] == expected);

  Json body = kBody;
  body["max_output_tokens"] = 3;
  const Json cut = endpoint.post("/v1/responses", body);
  CHECK(cut["status"] == "incomplete");
  CHECK(cut["incomplete_details"]["reason"] == "max_output_tokens");
  CHECK(events_of(endpoint, body).back()["type"] == "response.incomplete");
}

TEST_CASE("a request goes on from the response that it names, without that one's instructions") {
  const Endpoint endpoint;
  Json body = kBody;
  body["instructions"] = "Be brief.";
  const Json first = endpoint.post("/v1/responses", body);
  const Json asked = {{"role", "user"}, {"content", "And then?"}};
  const Json second = endpoint.post(
      "/v1/responses",
      {{"input", {asked}}, {"previous_response_id", first["id"]}, {"max_output_tokens", 12}, {"temperature", 0}});
  Json chat = chat_body("What is ridge?", 12);
  chat["messages"].push_back({{"role", "assistant"}, {"content", first["output"][0]["content"][0]["text"]}});
  chat["messages"].push_back(asked);
  CHECK(second["output"][0]["content"][0]["text"] == content_of_chat(endpoint, chat));

  body["store"] = false;
  const Json unknown = {{"input", "x"}, {"previous_response_id", endpoint.post("/v1/responses", body)["id"]}};
  CHECK(endpoint.post("/v1/responses", unknown, 404)["error"]["param"] == "previous_response_id");
}

TEST_CASE("a response is held to its schema, and what it cannot do is refused") {
  const Endpoint endpoint;
  Json body = {{"input", "Give me JSON."}, {"max_output_tokens", 200}, {"temperature", 1}};
  body["text"]["format"] = {{"type", "json_schema"},
                            {"name", "kind"},
                            {"schema",
                             {{"type", "object"},
                              {"properties", {{"kind", {{"enum", {"a", "b"}}}}}},
                              {"required", {"kind"}},
                              {"additionalProperties", false}}}};
  const std::string text = endpoint.post("/v1/responses", body)["output"][0]["content"][0]["text"];
  const Json kind = Json::parse(text)["kind"];
  CHECK((kind == "a" || kind == "b"));

  const auto error = [&](const char* name, const Json& value) {
    Json wrong = kBody;
    wrong[name] = value;
    return endpoint.post("/v1/responses", wrong, 400)["error"]["message"].get<std::string>();
  };
  CHECK(error("background", true) == "background is not supported");
  CHECK(error("truncation", "first").starts_with("truncation: "));
  CHECK(error("tool_choice", {{"type", "web_search"}}).starts_with("tool_choice.type: "));
  CHECK(error("input", 1) == "input: expected a string or a list of items");
  CHECK(error("input", {{{"type", "song"}}}).starts_with("input[0].type: items of type"));
  CHECK(error("input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}})
            .starts_with("input[0].content[0].type"));
}

TEST_CASE("calls are items of their own, whole or as events, and a request goes on with their outputs") {
  const Endpoint endpoint;
  Json body = {{"input", "How is the weather?"}, {"max_output_tokens", 400}, {"temperature", 2}, {"seed", 3}};
  const Json unit = {{"type", "string"}, {"enum", {"C", "F"}}};
  body["tools"] = {{{"type", "function"},
                    {"name", "get_weather"},
                    {"description", "The weather"},
                    {"strict", true},
                    {"parameters", {{"type", "object"}, {"properties", {{"unit", unit}}}, {"required", {"unit"}}}}}};
  body["tool_choice"] = {{"type", "function"}, {"name", "get_weather"}};
  body["parallel_tool_calls"] = false;
  const Json response = endpoint.post("/v1/responses", body);
  CHECK(response["status"] == "completed");
  CHECK(response["tools"] == body["tools"]);
  CHECK(response["parallel_tool_calls"] == false);
  REQUIRE(response["output"].size() == 1);
  const Json call = response["output"][0];
  CHECK(call["type"] == "function_call");
  CHECK(call["status"] == "completed");
  CHECK(call["name"] == "get_weather");
  const Json given = Json::parse(call["arguments"].get<std::string>())["unit"];
  CHECK((given == "C" || given == "F"));

  std::string names, last, arguments;
  Json item;
  for (const Json& event : events_of(endpoint, body)) {
    if (event["type"] != last) names += event["type"].get<std::string>().substr(9) + " ";
    last = event["type"];
    if (last == "response.output_item.added") item = event["item"];
    if (last == "response.function_call_arguments.delta") arguments += event["delta"];
    if (last == "response.function_call_arguments.done") CHECK(event["arguments"] == arguments);
    if (event.contains("item_id")) CHECK(event["item_id"] == item["id"]);
    if (last != "response.output_item.done") continue;
    item["arguments"] = arguments;
    item["status"] = "completed";
    CHECK(event["item"] == item);
  }
  CHECK(names == "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done "
                 "output_item.done completed ");
  CHECK(arguments == call["arguments"].get<std::string>());

  // Continuing and resending give the same prompt.
  const Json output = {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "21 degrees"}};
  Json next = {{"max_output_tokens", 12}, {"temperature", 0}, {"tools", body["tools"]}};
  next["previous_response_id"] = response["id"];
  next["input"] = Json::array({output});
  const Json first = endpoint.post("/v1/responses", next);
  next.erase("previous_response_id");
  next["input"] = {{{"role", "user"}, {"content", body["input"]}}, call, output};
  const Json second = endpoint.post("/v1/responses", next);
  CHECK(second["output"][0]["content"] == first["output"][0]["content"]);
  CHECK(second["usage"]["input_tokens"] == first["usage"]["input_tokens"]);
  Json chat = chat_body(body["input"], 12);
  chat["tools"] = body["tools"];
  const Json function = {{"name", "get_weather"}, {"arguments", call["arguments"]}};
  chat["messages"].push_back(
      {{"role", "assistant"}, {"tool_calls", {{{"id", call["call_id"]}, {"function", function}}}}});
  chat["messages"].push_back({{"role", "tool"}, {"tool_call_id", call["call_id"]}, {"content", "21 degrees"}});
  CHECK(first["output"][0]["content"][0]["text"] == content_of_chat(endpoint, chat));

  const auto error = [&](const Json& item) {
    next["input"] = Json::array({item});
    return endpoint.post("/v1/responses", next, 400)["error"]["message"].get<std::string>();
  };
  CHECK(error(output).starts_with("input[0].call_id: no earlier function call"));
  CHECK(error({{"type", "function_call"}, {"name", "f"}}) == "input[0].call_id is missing");
  CHECK(error({{"type", "function_call"}, {"call_id", "1"}}) == "input[0].name: expected the name of a function");
}

TEST_CASE("a call that is cut off is incomplete, and the conversation goes on without it") {
  using server::OutputItems;
  OutputItems items([](const char*, const Json&) {});
  items.add(OutputItems::Kind::message, "Let me look.");
  items.add_call({.index = 0, .begins = true, .ends = true, .id = "1", .name = "f", .arguments = "{}"});
  items.add_call({.index = 1, .begins = true, .id = "2", .name = "f", .arguments = "{\"a"});
  items.finish(false);
  REQUIRE(items.items().size() == 3);
  CHECK(items.items()[1]["status"] == "completed");
  CHECK(items.items()[2]["status"] == "incomplete");
  CHECK(items.message()["content"] == "Let me look.");
  REQUIRE(items.message()["tool_calls"].size() == 1);
  CHECK(items.message()["tool_calls"][0]["id"] == "1");
}

TEST_CASE("reasoning is an item before the message, and an answer of nothing is an empty message") {
  std::vector<std::string> types;
  using server::OutputItems;
  OutputItems items([&](const char* type, const Json&) { types.push_back(type); });
  items.add(OutputItems::Kind::reasoning, "Hm");
  items.add(OutputItems::Kind::reasoning, ", well");
  items.add(OutputItems::Kind::message, "Yes");
  items.finish(false);
  REQUIRE(items.items().size() == 2);
  CHECK(items.items()[0]["type"] == "reasoning");
  CHECK(items.items()[0]["content"][0]["text"] == "Hm, well");
  CHECK(items.items()[1]["status"] == "incomplete");
  CHECK(items.message() == Json{{"role", "assistant"}, {"content", "Yes"}});
  CHECK(std::ranges::count(types, "response.reasoning_text.delta") == 2);
  OutputItems nothing([](const char*, const Json&) {});
  nothing.finish(true);
  CHECK(nothing.items()[0]["content"][0]["text"] == "");
}

TEST_CASE("of too many conversations, or too long ones, the oldest are forgotten") {
  server::ResponseStore store;
  for (size_t i = 0; i <= server::ResponseStore::kMax; ++i) store.add(std::to_string(i), Json::array({i}));
  CHECK(!store.find("0"));
  CHECK(store.find("1") == Json::array({1}));
  store.add("long", Json::array({std::string(server::ResponseStore::kMaxBytes - 100, 'x')}));
  CHECK(!store.find("1"));
  CHECK(store.find("long"));
  store.add("longer", Json::array({std::string(server::ResponseStore::kMaxBytes, 'x')}));
  CHECK(!store.find("longer"));
}

TEST_CASE("tools and items that only other servers run are left out, and those of clients are taken") {
  const Endpoint endpoint;
  Json body = kBody;
  body["max_output_tokens"] = 2;
  const Json plain = endpoint.post("/v1/responses", body);
  body["tools"] = {{{"type", "web_search"}},
                   {{"type", "custom"}, {"name", "apply_patch"}},
                   {{"type", "local_shell"}},
                   {{"type", "namespace"}, {"name", "x"}, {"tools", Json::array()}},
                   {{"type", "mcp"}}};
  const Json tooled = endpoint.post("/v1/responses", body);
  CHECK(tooled["output"][0]["content"] == plain["output"][0]["content"]);
  CHECK(tooled["tools"] == body["tools"]);
  CHECK(tooled["usage"]["input_tokens"] == plain["usage"]["input_tokens"]);
  body["input"] = {{{"role", "user"}, {"content", "Hi"}},
                   {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}},
                   {{"type", "web_search_call"}, {"id", "ws_1"}, {"status", "completed"}},
                   {{"type", "custom_tool_call"}, {"call_id", "a"}, {"name", "apply_patch"}, {"input", "*** Begin"}},
                   {{"type", "custom_tool_call_output"}, {"call_id", "a"}, {"output", "done"}},
                   {{"type", "local_shell_call"}, {"call_id", "b"}, {"action", {{"command", {"ls"}}}}},
                   {{"type", "local_shell_call_output"}, {"call_id", "b"}, {"output", "x"}},
                   {{"type", "item_reference"}, {"id", "msg_unknown"}},
                   {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "no"}}}}},
                   {{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "What is ridge?"}}}}}};
  CHECK(endpoint.post("/v1/responses", body)["status"] == "incomplete");
}

TEST_CASE("a response is kept until it is deleted, with its input, and is referred to by its items") {
  const Endpoint endpoint;
  const Json first = endpoint.post("/v1/responses", kBody);
  const std::string id = first["id"], path = "/v1/responses/" + id;
  CHECK(id.size() == 5 + 32);
  CHECK(Json::parse(endpoint.get(path)) == first);
  const Json items = Json::parse(endpoint.get(path + "/input_items"));
  REQUIRE(items["data"].size() == 1);
  CHECK(items["data"][0]["content"][0] == Json{{"type", "input_text"}, {"text", "What is ridge?"}});
  CHECK(items["has_more"] == false);
  const Json reference = {{"type", "item_reference"}, {"id", first["output"][0]["id"]}};
  const Json asked = {{"role", "user"}, {"content", "And then?"}};
  Json body = kBody;
  body["input"] = {{{"role", "user"}, {"content", "What is ridge?"}}, reference, asked};
  const Json by_reference = endpoint.post("/v1/responses", body);
  body["input"] = {{{"role", "user"}, {"content", "What is ridge?"}}, reference, reference, asked};
  CHECK(endpoint.post("/v1/responses/input_tokens", body)["input_tokens"] == by_reference["usage"]["input_tokens"]);
  body["input"] = {asked};
  body["previous_response_id"] = id;
  CHECK(endpoint.post("/v1/responses", body)["output"][0]["content"] == by_reference["output"][0]["content"]);
  CHECK(endpoint.post("/v1/responses/input_tokens", body)["input_tokens"] == by_reference["usage"]["input_tokens"]);

  CHECK(endpoint.client().ask("DELETE", path).status == 200);
  CHECK(endpoint.client().get(path).status == 404);
  CHECK(endpoint.client().ask("DELETE", path).status == 404);
}

TEST_CASE("a response has every member that the specification requires") {
  const Endpoint endpoint;
  const Json response = endpoint.post("/v1/responses", kBody);
  for (const char* name : {"id",
                           "object",
                           "created_at",
                           "completed_at",
                           "status",
                           "incomplete_details",
                           "model",
                           "previous_response_id",
                           "instructions",
                           "output",
                           "error",
                           "tools",
                           "tool_choice",
                           "truncation",
                           "parallel_tool_calls",
                           "text",
                           "top_p",
                           "presence_penalty",
                           "frequency_penalty",
                           "top_logprobs",
                           "temperature",
                           "reasoning",
                           "usage",
                           "max_output_tokens",
                           "max_tool_calls",
                           "store",
                           "background",
                           "service_tier",
                           "metadata",
                           "safety_identifier",
                           "prompt_cache_key"})
    CHECK_MESSAGE(response.contains(name), name);
}

TEST_CASE("a conversation that is too long loses its oldest messages where it is to be truncated") {
  const Endpoint endpoint;
  Json body = {{"input", Json::array()}, {"max_output_tokens", 4}, {"instructions", "Be brief."}, {"temperature", 0}};
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word ";
  for (int i = 0; i < 40; ++i) body["input"].push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", text}});
  body["input"].push_back({{"role", "user"}, {"content", "What is ridge?"}});
  CHECK(endpoint.post("/v1/responses", body, 400)["error"]["code"] == "context_length_exceeded");
  body["truncation"] = "auto";
  const Json cut = endpoint.post("/v1/responses", body);
  CHECK(cut["truncation"] == "auto");
  CHECK(cut["usage"]["input_tokens"].get<int>() <= 1020);
  CHECK(cut["usage"]["input_tokens"].get<int>() > 700);
  body["input"] = {{{"role", "user"}, {"content", std::string(20000, 'x')}}};
  CHECK(endpoint.post("/v1/responses", body, 400)["error"]["code"] == "context_length_exceeded");
}

TEST_CASE("a compaction keeps the user's messages and a summary that later requests understand") {
  const Endpoint endpoint;
  const Json input = {{{"role", "user"}, {"content", "What is ridge?"}},
                      {{"role", "assistant"}, {"content", "A tool that runs models."}},
                      {{"role", "user"}, {"content", "Is it fast?"}}};
  const Json body = {{"model", "guide"}, {"input", input}, {"temperature", 0}, {"max_output_tokens", 30}};
  Json streamed = body;
  streamed["stream"] = true; // the API has no such form
  CHECK(endpoint.post("/v1/responses/compact", streamed, 400)["error"]["param"] == "stream");
  const Json compacted = endpoint.post("/v1/responses/compact", body);
  CHECK(compacted["object"] == "response.compaction");
  CHECK(compacted["usage"]["output_tokens"].get<int>() > 0);
  const Json& output = compacted["output"];
  REQUIRE(output.size() == 3);
  CHECK(output[0]["role"] == "user");
  CHECK(output[0]["content"][0]["text"] == "What is ridge?");
  CHECK(output[1]["content"][0]["text"] == "Is it fast?");
  REQUIRE(output[2]["type"] == "compaction");
  const auto summary = server::summary_of(output[2]["encrypted_content"]);
  REQUIRE(summary);
  CHECK(!summary->empty());
  CHECK(output[2].dump().find("tool that runs") == std::string::npos); // opaque

  Json next = output;
  next.push_back({{"role", "user"}, {"content", "And then?"}});
  Json asked = kBody;
  asked["input"] = next;
  const Json response = endpoint.post("/v1/responses", asked);
  Json chat = chat_body("");
  chat["messages"] = {{{"role", "user"}, {"content", "What is ridge?"}},
                      {{"role", "user"}, {"content", "Is it fast?"}},
                      {{"role", "user"}, {"content", engine::compacted_message(*summary)}},
                      {{"role", "user"}, {"content", "And then?"}}};
  CHECK(response["output"][0]["content"][0]["text"] == content_of_chat(endpoint, chat));

  // An earlier response in place of the items.
  const Json first = endpoint.post("/v1/responses", kBody);
  Json of_response = body;
  of_response.erase("input");
  endpoint.post("/v1/responses/compact", of_response, 400);
  of_response["previous_response_id"] = first["id"];
  const Json again = endpoint.post("/v1/responses/compact", of_response);
  REQUIRE(again["output"].size() == 2);
  CHECK(again["output"][0]["content"][0]["text"] == kBody["input"]);

  // Another server's item.
  asked["input"] = Json::array(
      {{{"type", "compaction"}, {"encrypted_content", "gAAAAABp"}}, {{"role", "user"}, {"content", "And then?"}}});
  const Json refused = endpoint.post("/v1/responses", asked, 400);
  CHECK(refused["error"]["param"] == "input[0].encrypted_content");
  CHECK(server::summary_of(server::compaction_content("é")) == "é");
  CHECK(!server::summary_of(server::compaction_content("\xff"))); // not UTF-8: written by hand
}

TEST_CASE("a conversation that outgrows the context can be compacted") {
  const Endpoint endpoint;
  Json input = Json::array();
  for (int i = 0; i < 60; ++i) {
    input.push_back({{"role", "user"}, {"content", "How many bytes of memory does a step of the model read?"}});
    input.push_back({{"role", "assistant"}, {"content", "As many as its weights have, and the context's."}});
  }
  input.push_back({{"role", "user"}, {"content", "And now?"}});
  endpoint.post("/v1/responses", {{"input", input}}, 400); // too long
  const Json compacted =
      endpoint.post("/v1/responses/compact", {{"input", input}, {"temperature", 0}, {"max_output_tokens", 30}});
  const Json& output = compacted["output"];
  CHECK(output.back()["type"] == "compaction");
  REQUIRE(output.size() > 2);
  CHECK(output.size() < 62); // the latest messages, as far as there is room
  CHECK(output[output.size() - 2]["content"][0]["text"] == "And now?");
  Json next = output;
  next.push_back({{"role", "user"}, {"content", "What is ridge?"}});
  endpoint.post("/v1/responses", {{"input", next}, {"max_output_tokens", 5}});
}
