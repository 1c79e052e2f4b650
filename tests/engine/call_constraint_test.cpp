// Calls of random models match their schemas.
#include "engine/calls/call_constraint.h"

#include "core/error.h"
#include "core/random.h"
#include "engine/chat/answer_text.h"
#include "text/calls/call_writer.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using Json = nlohmann::ordered_json;

namespace {

const text::Tokenizer& tokenizer() {
  static const auto made = [] {
    static std::vector<std::string> tokens = {"</s>",
                                              "[TOOL_CALLS]",
                                              "[ARGS]",
                                              "<|call|>",
                                              "<|channel|>",
                                              "<|message|>",
                                              "<|start|>",
                                              "<|end|>",
                                              "<|tool_call>",
                                              "<tool_call|>",
                                              "<|\"|>",
                                              "<|tool_call_start|>",
                                              "<|tool_call_end|>",
                                              "<|constrain|>",
                                              "</think>",
                                              "<|return|>"};
    const size_t controls = tokens.size();
    for (const char* space : {"\u0120", "\u010A", "th"}) tokens.push_back(space);
    for (char c = '!'; c <= '~'; ++c) tokens.push_back(std::string(1, c));
    text::TokenizerData data;
    data.model = "gpt2";
    data.pre = "gpt-2";
    data.tokens = {tokens.begin(), tokens.end()};
    data.kinds.assign(tokens.size(), text::TokenKind::normal);
    std::fill_n(data.kinds.begin(), controls, text::TokenKind::control);
    data.merges = {"t h"};
    data.special.eos = 0;
    return std::make_unique<text::Tokenizer>(std::move(data));
  }();
  return *made;
}

std::shared_ptr<const text::TokenTable> table() {
  static const auto made = text::make_token_table(tokenizer());
  return made;
}

const text::CallSyntax& syntax_of(std::string_view name) {
  return *std::ranges::find(text::call_syntaxes(), name, &text::CallSyntax::name);
}

engine::ToolUse weather(bool required) {
  engine::ToolUse use;
  use.required = required;
  use.parallel = false;
  use.tools = {{"get_weather", Json::parse(R"({"type": "object", "properties": {"city": {"type": "string",
      "maxLength": 5}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"]})")}};
  return use;
}

struct ConstrainedRun {
  ConstrainedRun(std::string_view syntax, bool required, std::string prompt_text, std::string_view source = "",
                 const Json& schema = nullptr)
      : prompt(std::move(prompt_text)),
        rules(engine::make_call_rules({.syntax = &syntax_of(syntax)},
                                      text::ChatTemplate::parse("{#" + std::string(source) + "#}", "t"),
                                      weather(required), tokenizer(), prompt, schema)),
        constraint(rules, table(), tokenizer(), prompt), answer(tokenizer(), {}, prompt, rules) {}

  bool allows(std::string_view token) { return constraint.allows(tokenizer().find(token)); }
  void write(std::string_view text, bool parse_special = true) {
    for (const int32_t token : tokenizer().encode(text, {.parse_special = parse_special})) accept(token);
  }
  void accept(int32_t token) {
    constraint.accept(token);
    take(answer.push(token));
  }
  void take(const engine::AnswerText::Piece& piece) {
    content += piece.content;
    for (const auto& delta : piece.calls) {
      if (delta.begins) ++begun;
      arguments += delta.arguments;
    }
  }
  // False: too long.
  bool write_randomly(uint64_t seed) {
    std::vector<float> logits(static_cast<size_t>(tokenizer().vocab_size()));
    for (uint64_t i = 0; i < 3000; ++i) {
      std::ranges::fill(logits, 0.0f);
      constraint.apply(logits);
      std::vector<int32_t> allowed;
      for (size_t token = 0; token < logits.size(); ++token) {
        const bool is_allowed = logits[token] == 0.0f;
        CHECK(is_allowed == constraint.allows(static_cast<int32_t>(token)));
        if (is_allowed) allowed.push_back(static_cast<int32_t>(token));
      }
      REQUIRE(!allowed.empty());
      const int32_t token = allowed[core::mix_bits(core::mix_bits(seed) + i) % allowed.size()];
      if (tokenizer().is_eog(token)) {
        take(answer.finish());
        return true;
      }
      accept(token);
    }
    return false;
  }

  const std::string prompt;
  const std::shared_ptr<const engine::CallRules> rules;
  engine::CallConstraint constraint;
  engine::AnswerText answer;
  std::string content, arguments;
  int begun = 0;
};

void check_arguments(const std::string& text) {
  const Json arguments = Json::parse(text, nullptr, false);
  REQUIRE(arguments.is_object());
  CHECK(arguments.size() == 2);
  CHECK(arguments["city"].is_string());
  CHECK(arguments["city"].get<std::string>().size() <= 5);
  CHECK((arguments["unit"] == "C" || arguments["unit"] == "F"));
}

} // namespace

TEST_CASE("an answer is free until a call begins, and then a call that fits") {
  const std::pair<const char*, const char*> begins[] = {
      {"hermes", "<tool_call>"},       {"qwen3-coder", "<tool_call>"},
      {"qwen3-coder", "<function="},   {"mistral-args", "[TOOL_CALLS]"},
      {"mistral", "[TOOL_CALLS]"},     {"gemma4", "<|tool_call>"},
      {"lfm2", "<|tool_call_start|>"}, {"glm-4", "<tool_call>"},
      {"glm-4.7", "<tool_call>"},      {"harmony", "<|channel|>commentary to=functions."}};
  int whole = 0;
  for (const auto& each : begins) {
    const char *const syntax = each.first, *const begin = each.second;
    CAPTURE(syntax); // clang cannot capture a structured binding
    for (uint64_t seed = 0; seed < 4; ++seed) {
      ConstrainedRun run(syntax, false, syntax == std::string_view("harmony") ? "<|start|>assistant" : "hi");
      if (syntax != std::string_view("harmony")) {
        CHECK(run.allows("</s>"));
        run.write("I look.");
      }
      run.write(begin);
      CHECK(!run.allows("</s>"));
      if (!run.write_randomly(seed)) continue;
      ++whole;
      CHECK(run.answer.calls() == 1);
      CHECK(run.begun == 1);
      CHECK(run.content == (syntax == std::string_view("harmony") ? "" : "I look."));
      check_arguments(run.arguments);
    }
  }
  CHECK(whole > 20);
}

TEST_CASE("a required call binds from the start, or after reasoning") {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    ConstrainedRun run("hermes", true, "hi");
    CHECK(!run.allows("</s>"));
    CHECK(!run.allows("I"));
    if (!run.write_randomly(seed)) continue;
    CHECK(run.answer.calls() == 1);
    check_arguments(run.arguments);
  }
  ConstrainedRun opened("hermes", true, "hi<think>", "<think>");
  opened.write("A <tool_call> would help.");
  CHECK(opened.allows("Z"));
  CHECK(!opened.allows("</s>"));
  opened.write("</think>");
  CHECK(!opened.allows("Z"));
  CHECK(opened.allows("<"));
  CHECK(opened.write_randomly(3));
  check_arguments(opened.arguments);
  CHECK(opened.content == "");

  ConstrainedRun itself("hermes", true, "hi", "<think>");
  CHECK(!itself.allows("I"));
  itself.write("<think>Hm, < that.</think>");
  CHECK(!itself.allows("Z"));
  itself.write("\n\n<tool_call>");
  CHECK(itself.write_randomly(4));
  check_arguments(itself.arguments);
}

TEST_CASE("an answer with a schema is JSON that satisfies it, or calls, after reasoning") {
  const Json schema = Json::parse(R"({"type": "object", "properties": {"text": {"type": "string", "maxLength": 60}},
      "required": ["text"]})");
  int calls = 0, answers = 0;
  for (const char* syntax : {"hermes", "llama3", "qwen3-coder", "mistral", "gemma4", "harmony"}) {
    CAPTURE(syntax);
    const std::string prompt = syntax == std::string_view("harmony") ? "<|start|>assistant" : "hi";
    for (uint64_t seed = 0; seed < 12; ++seed) {
      ConstrainedRun run(syntax, false, prompt, "", schema);
      CHECK(!run.allows("</s>"));
      if (!run.write_randomly(seed)) continue;
      if (run.begun > 0) {
        ++calls;
        CHECK(run.content == "");
        check_arguments(run.arguments);
      } else {
        ++answers;
        CHECK(Json::parse(run.content)["text"].is_string());
      }
    }
  }
  CHECK(calls > 5);
  CHECK(answers > 5);

  const std::string quoted = R"({"text": "<tool_call>\n<function=get_weather> [TOOL_CALLS]"})";
  for (const char* syntax : {"hermes", "qwen3-coder", "mistral"}) {
    ConstrainedRun run(syntax, false, "hi<think>", "<think>", schema);
    run.write("Hm {</think>\n\n");
    run.write(quoted, false);
    CHECK(run.allows("</s>"));
    run.take(run.answer.finish());
    CHECK(run.content == quoted);
    CHECK(run.begun == 0);
  }
  ConstrainedRun required("hermes", true, "hi", "", schema);
  CHECK(!required.allows("{"));
  ConstrainedRun harmony("harmony", false, "<|start|>assistant", "<|channel|>analysis", schema);
  harmony.write("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>");
  CHECK(!harmony.allows("I"));
  harmony.write(quoted, false);
  harmony.take(harmony.answer.finish());
  CHECK(harmony.content == quoted);
}

TEST_CASE("marks within reasoning begin no call, and a token that would begin a malformed one is refused") {
  ConstrainedRun run("hermes", false, "hi<think>", "<think>");
  run.write("A <tool_call> x");
  CHECK(run.allows("</s>"));
  run.write("</think>No <tool_call");
  CHECK(run.allows("x"));
  run.write(">");
  CHECK(!run.allows("x"));
  CHECK_THROWS_AS(run.constraint.accept(tokenizer().find("x")), core::Error);

  ConstrainedRun header("harmony", false, "<|start|>assistant");
  header.write("<|channel|>analysis<|message|>to=functions.x<|end|><|start|>assistant");
  CHECK(header.allows("</s>"));
  header.write(" to=functions.");
  CHECK(!header.allows("x"));
  CHECK(header.allows("g"));

  ConstrainedRun llama("llama3", false, "hi");
  llama.write("{\"name\": \"get_weather");
  CHECK(llama.allows("x"));
  llama.write("\"");
  CHECK(!llama.allows("x"));
  ConstrainedRun late("llama3", false, "hi");
  late.write("So: {\"name\": \"get_weather\"");
  CHECK(late.allows("x"));
}

TEST_CASE("a template's way with calls is found out, and messages are fitted to it") {
  using text::ChatTemplate;
  const Json messages = Json::parse(R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null,
      "tool_calls": [{"id": "call_12345678", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_call_id": "call_12345678", "name": "f", "content": "2"}])");
  const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");

  const auto plain = engine::find_call_format(ChatTemplate::builtin("llama2"));
  CHECK(plain.syntax->name == "hermes");
  CHECK(!plain.takes_tools);
  CHECK(!plain.takes_calls);
  const auto written = engine::fit_messages(plain, messages, tools);
  CHECK(written.tools.is_null());
  CHECK(written.messages[0]["role"] == "system");
  CHECK(written.messages[0]["content"].get<std::string>().find("\"name\":\"f\"") != std::string::npos);
  CHECK(written.messages[2]["content"] == "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>");

  const auto text = engine::find_call_format(ChatTemplate::parse(
      "{% if tools %}{{ tools | tojson }}[TOOL_CALLS]{% endif %}{% for m in messages %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}{{ '[TOOL_CALLS]' + c.function.name + c.function.arguments }}{% endfor %}"
      "{% endfor %}",
      "t"));
  CHECK(text.syntax->name == "mistral");
  CHECK(text.takes_tools);
  CHECK(text.takes_calls);
  CHECK(text.takes_results);
  CHECK(text.arguments_as_text);
  const auto fitted = engine::fit_messages(text, messages, tools);
  CHECK(fitted.tools == tools);
  const std::string id = fitted.messages[1]["tool_calls"][0]["id"];
  CHECK(id.size() == 9);
  CHECK(fitted.messages[2]["tool_call_id"] == id);
  CHECK(fitted.messages[1]["tool_calls"][0]["function"]["arguments"] == "{\"a\":1}");
  CHECK(fitted.messages[1]["content"] == "");
  CHECK_THROWS_AS(engine::fit_messages(text, Json::parse(R"([{"role": "assistant", "tool_calls": [3]}])"), tools),
                  core::Error);
}
