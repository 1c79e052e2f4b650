// Reasoning budgets in each API.
#include "support/http/endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <sstream>

using namespace ridge;
using server::Json;
using tests::chat_body;
using tests::Endpoint;

namespace {

// Reasons without end.
struct Thinker {
  tests::TemporaryFolder folder;
  Endpoint endpoint{[this] {
    tests::TinyModel tiny;
    tiny.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                         "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
    tiny.write(folder / "thinker.gguf");
    return tests::open_exact(folder / "thinker.gguf", 2);
  }};

  Json message(const Json& fields) const {
    Json body = chat_body("Hi", 60);
    body["ignore_eos"] = true;
    body.update(fields);
    return endpoint.post("/v1/chat/completions", body)["choices"][0]["message"];
  }
};

} // namespace

TEST_CASE("reasoning ends with its budget, by each name that peers have for it") {
  const Thinker thinker;
  const Json free = thinker.message(Json::object());
  const std::string reasoning = free["reasoning_content"];
  CHECK(free["content"] == "");
  const Json limited = thinker.message({{"reasoning", {{"max_tokens", 9}}}});
  const std::string begun = limited["reasoning_content"];
  CHECK(reasoning.starts_with(begun));
  CHECK(begun.size() < reasoning.size() / 2);
  CHECK_FALSE(limited["content"].get<std::string>().empty());
  for (const Json& fields :
       {Json{{"thinking", {{"type", "enabled"}, {"budget_tokens", 9}}}}, Json{{"thinking_budget", 9}},
        Json{{"thinking_budget_tokens", 9}}, Json{{"reasoning_budget", 9}}, Json{{"reasoning_budget_tokens", 9}},
        Json{{"thinking_token_budget", 9}}}) {
    CAPTURE(fields.dump());
    CHECK(thinker.message(fields) == limited);
  }
  CHECK(thinker.message({{"reasoning_budget", -1}}) == free);
}

TEST_CASE("a closing message stands at the end of reasoning that is cut, and does not count") {
  const Thinker thinker;
  const Json limited = thinker.message({{"reasoning_budget", 9}});
  const Json closed =
      thinker.message({{"reasoning_budget", 9}, {"reasoning_budget_message", "\nSo be it. <|im_end|>"}});
  const std::string begun = limited["reasoning_content"], whole = closed["reasoning_content"];
  CHECK(whole.starts_with(begun));
  CHECK(whole.ends_with("\nSo be it. <|im_end|>")); // as text, not as a control token
  CHECK_FALSE(closed["content"].get<std::string>().empty());
  const Json none = thinker.message({{"reasoning_budget", 0}});
  CHECK_FALSE(none.contains("reasoning_content"));
  CHECK_FALSE(none["content"].get<std::string>().empty());
}

TEST_CASE("a budget holds beside a schema, and the other APIs have it, too") {
  const Thinker thinker;
  const Json held = thinker.message({{"reasoning_budget", 5}, {"json_schema", {{"const", "yes"}}}});
  CHECK(held["content"] == "\"yes\"");
  CHECK_FALSE(held["reasoning_content"].get<std::string>().empty());

  Json body = chat_body("Hi", 60);
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 9}};
  const Json blocks = thinker.endpoint.post("/v1/messages", body)["content"];
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0]["type"] == "thinking");
  CHECK(blocks[1]["type"] == "text");

  const Json response = thinker.endpoint.post(
      "/v1/responses",
      {{"input", "Hi"}, {"max_output_tokens", 60}, {"temperature", 0}, {"reasoning", {{"max_tokens", 9}}}});
  REQUIRE(response["output"].size() == 2);
  CHECK(response["output"][0]["type"] == "reasoning");
}

TEST_CASE("reasoning is left out where a request says so") {
  const Thinker thinker;
  const Json shown = thinker.message({{"reasoning_budget", 9}});
  for (const Json& fields : {Json{{"include_reasoning", false}}, Json{{"reasoning", {{"exclude", true}}}}}) {
    Json body = {{"reasoning_budget", 9}};
    body.update(fields);
    const Json hidden = thinker.message(body);
    CHECK_FALSE(hidden.contains("reasoning_content"));
    CHECK(hidden["content"] == shown["content"]);
  }
  Json body = chat_body("Hi", 20);
  body.update({{"include_reasoning", false}, {"stream", true}});
  CHECK(thinker.endpoint.client().post("/v1/chat/completions", body.dump()).body.find("reasoning_content") ==
        std::string::npos);
}

TEST_CASE("a budget that is none is refused by its name") {
  const Thinker thinker;
  const auto error = [&](const Json& fields) -> std::string {
    Json body = chat_body("Hi", 5);
    body.update(fields);
    return thinker.endpoint.post("/v1/chat/completions", body, 400)["error"]["message"];
  };
  CHECK(error({{"reasoning", {{"max_tokens", -2}}}}).starts_with("reasoning.max_tokens: "));
  CHECK(
      error({{"thinking", {{"type", "enabled"}, {"budget_tokens", "many"}}}}).starts_with("thinking.budget_tokens: "));
  CHECK(error({{"reasoning_budget_message", 7}}).starts_with("reasoning_budget_message: "));
}
