// Versions, lists, loading, unloading.
#include "support/http/endpoint.h"

#include <filesystem>
#include <sstream>
#include <thread>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

TEST_CASE("Ollama's clients find the server, its version and its models") {
  const Endpoint endpoint;
  CHECK(endpoint.get("/") == "Ollama is running");
  CHECK(endpoint.client().ask("HEAD", "/").status == 200);
  const std::string version = Json::parse(endpoint.get("/api/version"))["version"];
  CHECK(version.find_first_not_of("0123456789.") == std::string::npos);
  const Json model = Json::parse(endpoint.get("/api/tags"))["models"][0];
  CHECK(model["digest"].get<std::string>().size() == 64);
  CHECK(model["digest"] == Json::parse(endpoint.get("/api/tags"))["models"][0]["digest"]);
  CHECK(model["size"].get<int64_t>() > 0);
  CHECK(model["modified_at"].get<std::string>().ends_with("Z"));
  for (const char* name : {"family", "families", "parameter_size", "quantization_level"})
    CHECK_MESSAGE(model["details"].contains(name), name);
  CHECK(Json::parse(endpoint.get("/api/ps"))["models"][0]["digest"] == model["digest"]);
}

TEST_CASE("Ollama's requests without a message or a prompt load and unload") {
  const Endpoint endpoint;
  for (const Json& prompt : Json{nullptr, ""}) {
    const Json reply =
        endpoint.post("/api/generate", {{"model", "guide"}, {"prompt", prompt}, {"keep_alive", "1h30m"}});
    CHECK(reply["response"] == "");
    CHECK(reply["done"] == true);
    CHECK(reply["done_reason"] == "load");
  }
  const Json chat = endpoint.post("/api/chat", {{"model", "guide"}, {"messages", Json::array()}, {"keep_alive", 0}});
  CHECK(chat["message"]["content"] == "");
  CHECK(chat["done_reason"] == "unload");
  for (const char* wrong : {"soon", "1x", "m", "1hh", "", "-"})
    CHECK(endpoint.post("/api/generate", {{"model", "guide"}, {"keep_alive", wrong}}, 400)["error"]
              .get<std::string>()
              .starts_with("keep_alive: "));
}

TEST_CASE("images are refused on Ollama's routes, never dropped") {
  const Endpoint endpoint;
  Json body = chat_body("What is on it?", 4);
  body["messages"][0]["images"] = {"aGVsbG8="};
  CHECK(endpoint.post("/api/chat", body, 400)["error"] == "messages[0].images: this server takes no images");
  CHECK(endpoint.post("/api/generate", {{"prompt", "Hi"}, {"images", {"aGVsbG8="}}}, 400)["error"] ==
        "images: this server takes no images");
  body["messages"][0]["images"] = Json::array();
  body["stream"] = false;
  body["options"] = {{"num_predict", 2}, {"top_k", -1}, {"repeat_penalty", 0}};
  CHECK(endpoint.post("/api/chat", body)["done"] == true);
}

TEST_CASE("Anthropic's clients get models and usage whole") {
  const Endpoint endpoint;
  const Json list = Json::parse(endpoint.get("/v1/models?limit=1"));
  CHECK(list["has_more"] == false);
  CHECK(list["first_id"] == "guide");
  for (const char* name : {"id", "type", "display_name", "created_at"})
    CHECK_MESSAGE(list["data"][0].contains(name), name);
  const Json usage = endpoint.post("/v1/messages", chat_body("Hi", 4))["usage"];
  CHECK(usage["cache_creation_input_tokens"] == 0);
  for (const char* name : {"cache_read_input_tokens", "cache_creation", "inference_geo", "output_tokens_details",
                           "server_tool_use", "service_tier"})
    CHECK_MESSAGE(usage.contains(name), name);
}

TEST_CASE("answers have each field that their APIs require") {
  const Endpoint endpoint;
  Json body = chat_body("Hi", 60);
  body["tools"] = {{{"name", "f"}, {"input_schema", {{"type", "object"}}}}};
  const Json plain = endpoint.post("/v1/messages", chat_body("Hi", 4));
  for (const char* name : {"id", "stop_details", "container"}) CHECK_MESSAGE(plain.contains(name), name);
  CHECK(plain["content"][0]["citations"].is_null());
  body["tool_choice"] = {{"type", "any"}};
  CHECK(endpoint.post("/v1/messages", body)["content"][0]["caller"] == Json{{"type", "direct"}});
  body["stream"] = true;
  const std::string events = endpoint.client().post("/v1/messages", body.dump()).body;
  CHECK(events.find(R"("caller":{"type":"direct"})") != std::string::npos);
  CHECK(events.find(R"("stop_details":null,"container":null},"usage")") != std::string::npos);

  Json nothing = chat_body("Hi", 4);
  nothing["stop_sequences"] = {plain["content"][0]["text"].get<std::string>().substr(0, 1)};
  CHECK(endpoint.post("/v1/messages", nothing)["content"][0]["text"] == "");
  nothing["stream"] = true;
  CHECK(endpoint.client().post("/v1/messages", nothing.dump()).body.find("event: content_block_stop\n") !=
        std::string::npos);

  body["stream"] = false;
  body["logprobs"] = true;
  body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  for (const Json& choice : {Json("none"), Json("required")}) {
    body["tool_choice"] = choice;
    const Json answer = endpoint.post("/v1/chat/completions", body)["choices"][0];
    CHECK(answer["message"].value("refusal", Json("absent")).is_null());
    CHECK(answer["message"]["annotations"] == Json::array());
    CHECK(answer["logprobs"].value("refusal", Json("absent")).is_null());
    Json again = body;
    again["messages"].push_back(answer["message"]);
    if (answer["message"].contains("tool_calls"))
      again["messages"].push_back(
          {{"role", "tool"}, {"tool_call_id", answer["message"]["tool_calls"][0]["id"]}, {"content", "1"}});
    again["messages"].push_back({{"role", "user"}, {"content", "and?"}});
    endpoint.post("/v1/chat/completions", again);
  }
}

TEST_CASE("a streamed block of thinking has its signature") {
  Endpoint endpoint;
  endpoint.chat_template = text::ChatTemplate::parse(
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"
      "{# </think> #}",
      "t");
  Json body = chat_body("What is ridge?", 4);
  body["stream"] = true;
  const std::string events = endpoint.client().post("/v1/messages", body.dump()).body;
  const size_t start = events.find(R"("content_block":{"type":"thinking","thinking":"","signature":""})");
  REQUIRE(start != std::string::npos);
  const size_t signature = events.find(R"("delta":{"type":"signature_delta","signature":""})");
  CHECK(signature > start);
  CHECK(events.find("content_block_stop") > signature);
}
