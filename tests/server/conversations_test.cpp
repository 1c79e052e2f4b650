// Agents' conversations in every API.
#include "support/http/endpoint.h"

#include <doctest/doctest.h>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

Json said(const char* role, const Json& content) { return {{"role", role}, {"content", content}}; }

std::string prompt_of(const Endpoint& endpoint, const Json& messages) {
  return endpoint.post("/apply-template", {{"messages", messages}})["prompt"];
}

} // namespace

TEST_CASE("messages of the system are taken wherever they stand, by every API") {
  const Endpoint endpoint;
  const Json texts = Json::array({{{"type", "text"}, {"text", "Be brief."}}});
  const Json late = {said("user", "Hi"), said("assistant", "x"), said("system", texts), said("user", "Hi")};
  const std::string prompt = prompt_of(endpoint, late);
  CHECK(prompt.find("Be brief.") != std::string::npos);
  Json body = {{"model", "m"}, {"messages", late}, {"max_tokens", 2}};
  CHECK(endpoint.post("/v1/messages", body)["type"] == "message");
  CHECK(endpoint.post("/v1/chat/completions", body)["object"] == "chat.completion");
  CHECK(endpoint.post("/api/chat",
                      {{"messages", late}, {"stream", false}, {"options", {{"num_predict", 2}}}})["done"] == true);
  const Json items = {said("user", "Hi"), said("developer", "Be brief."), said("system", "Go on."), said("user", "Hi")};
  CHECK(endpoint.post("/v1/responses", {{"instructions", "a"}, {"input", items}, {"max_output_tokens", 2}})["object"] ==
        "response");

  const auto tokens = [&](const Json& request) {
    return endpoint.post("/v1/messages/count_tokens", request)["input_tokens"].get<int64_t>();
  };
  CHECK(tokens({{"system", "Be brief."}, {"messages", {said("user", "Hi")}}}) ==
        tokens({{"messages", {said("system", "Be brief."), said("user", "Hi")}}}));
}

TEST_CASE("an answer at the end is continued, by every API") {
  const Endpoint endpoint;
  const Json messages = {said("user", "What is ridge?"), said("assistant", "ridge is")};
  CHECK(prompt_of(endpoint, messages).ends_with("ridge is"));
  Json body = {{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}};
  const std::string expected = endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"];
  CHECK(!expected.empty());
  CHECK(endpoint.post("/v1/messages", body)["content"][0]["text"] == expected);
  const Json ollama = {
      {"messages", messages}, {"stream", false}, {"options", {{"num_predict", 8}, {"temperature", 0}}}};
  CHECK(endpoint.post("/api/chat", ollama)["message"]["content"] == expected);
  const Json response = {{"input", messages}, {"max_output_tokens", 8}, {"temperature", 0}};
  CHECK(endpoint.post("/v1/responses", response)["output"][0]["content"][0]["text"] == expected);

  body["add_generation_prompt"] = false;
  body["continue_final_message"] = true;
  CHECK(endpoint.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] == expected);
  body["add_generation_prompt"] = true;
  CHECK(endpoint.post("/v1/chat/completions", body, 400)["error"]["param"] == "continue_final_message");
  body["continue_final_message"] = false;
  const std::string closed = endpoint.post("/apply-template", body)["prompt"];
  CHECK(closed.find("ridge is") != std::string::npos);
  CHECK(!closed.ends_with("ridge is"));
}

TEST_CASE("integers of any length come to the prompt as they were sent, in every form of arguments") {
  const Endpoint endpoint;
  const std::string digits = "123456789012345678901234567890";
  const auto prompt = [&](const std::string& arguments) {
    const std::string body = R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls":
        [{"id": "1", "function": {"name": "f", "arguments": )" +
                             arguments + R"(}}]}, {"role": "tool", "tool_call_id": "1", "content": null}]})";
    return endpoint.post_text("/apply-template", body, 200)["prompt"].get<std::string>();
  };
  for (const std::string& number : {digits, "-" + digits, std::string("18446744073709551615"), std::string("1e400")}) {
    CHECK(prompt("{\"n\": [" + number + "]}").find(number) != std::string::npos);
    CHECK(prompt("\"{\\\"n\\\": " + number + "}\"").find(number) != std::string::npos);
  }
  CHECK(prompt("\"{\\\"n\\\": \"").find("{\"n\": ") != std::string::npos);
  const std::string echoed = R"({"input": "hi", "max_output_tokens": 1, "metadata": {"n": )" + digits + "}}";
  CHECK(endpoint.client().post("/v1/responses", echoed).body.find("\"n\":" + digits) != std::string::npos);
}

TEST_CASE("blocks of Anthropic's clients are taken, and what is no text is refused with its place") {
  const Endpoint endpoint;
  const auto count = [&](const Json& blocks, int status = 200) {
    const Json body = {{"messages", {said("user", "Hi"), said("assistant", blocks), said("user", "Hi")}}};
    return endpoint.post("/v1/messages/count_tokens", body, status);
  };
  const Json text = {{"type", "text"}, {"text", "a"}};
  const Json thinking = {{"type", "thinking"}, {"thinking", "t"}, {"signature", ""}};
  const Json searched = {{"type", "server_tool_use"}, {"id", "1"}, {"name", "web_search"}, {"input", {{"query", "q"}}}};
  const Json found = {{"type", "web_search_tool_result"}, {"tool_use_id", "1"}, {"content", {{{"url", "u"}}}}};
  CHECK(count(Json::array({thinking, {{"type", "redacted_thinking"}, {"data", "x"}}, text})).contains("input_tokens"));
  CHECK(count(Json::array({thinking})).contains("input_tokens"));
  CHECK(count(Json::array({searched, found, text})).contains("input_tokens"));
  CHECK(count(Json::array()).contains("input_tokens"));
  CHECK(count(nullptr).contains("input_tokens"));
  const Json document = {{"type", "document"}, {"source", {{"type", "text"}, {"data", "d"}}}};
  CHECK(count(Json::array({document})).contains("input_tokens"));
  const std::string problem = count(Json::array({text, {{"type", "image"}}}), 400)["error"]["message"];
  CHECK(problem.starts_with("messages[1].content[1].type: this server takes only text"));
}
