// Clients' conversations in real templates.
#include "engine/chat/chat_request.h"

#include "core/error.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "text/chat/messages.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace ridge;
using engine::Json;

namespace {

struct Model {
  tests::TemporaryFolder folder;
  engine::LoadedModel model = open(folder);

  static engine::LoadedModel open(const tests::TemporaryFolder& folder) {
    const std::string path = folder / "tiny.gguf";
    tests::TinyModel().write(path);
    return engine::open_model(gguf::File::open(path));
  }

  engine::Generation chat(const text::ChatTemplate& chat_template, const Json& messages, bool tools = false,
                          const engine::LastTurn& last = {}, const Json& schema = nullptr) const {
    const engine::ChatRequests requests(model, chat_template, Json::object(), 1);
    const engine::ToolUse use = engine::read_tools(R"([{"type": "function", "function": {"name": "look",
        "description": "d", "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}}])",
                                                   "tools");
    return requests.chat(text::read_messages(messages), tools ? &use : nullptr, Json::object(), schema, last, {});
  }
  std::string prompt(const text::ChatTemplate& chat_template, const Json& messages, bool tools = false,
                     const engine::LastTurn& last = {}) const {
    return chat(chat_template, messages, tools, last).chat_prompt->bytes();
  }
};

Json said(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }
Json called(Json calls, Json content = "") {
  return {{"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", std::move(calls)}};
}
Json call(const char* id, Json arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", "look"}, {"arguments", std::move(arguments)}}}};
}
Json result(const char* id, Json content) {
  return {{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(content)}};
}

struct ChatForm {
  std::string name;
  Json messages;
  std::vector<std::string> words;
};

std::vector<ChatForm> shapes() {
  const Json s = said("system", "SYS1"), s2 = said("developer", "SYS2"), u = said("user", "ASK1"),
             u2 = said("user", "ASK2"), a = said("assistant", "SAY1"), a2 = said("assistant", "SAY2");
  const Json one = called(Json::array({call("1", R"({"key": "VAL1"})")}));
  const Json two = called(Json::array({call("1", R"({"key": "VAL1"})"), call("2", R"({"key": "VAL2"})")}));
  const Json first = result("1", "RES1"), second = result("2", "RES2");
  const auto list = [](std::vector<Json> all) { return Json(std::move(all)); };
  const Json nothing = {{"role", "assistant"}, {"content", nullptr}};
  const Json refused = {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "SAY1"}}}}};
  const Json reasoned = {{"role", "assistant"}, {"content", nullptr}, {"reasoning_content", "r"}};
  const Json thinking = {
      {"role", "assistant"}, {"content", "SAY1"}, {"reasoning", "r"}, {"tool_calls", {call("1", {{"key", "VAL1"}})}}};
  const Json old_call = {{"role", "assistant"},
                         {"content", nullptr},
                         {"function_call", {{"name", "look"}, {"arguments", R"({"key": "VAL1"})"}}}};
  const Json old_result = {{"role", "function"}, {"name", "look"}, {"content", "RES1"}};
  return {
      {"two systems", list({s, s2, u}), {"SYS1", "SYS2", "ASK1"}},
      {"a late system", list({u, a, s, u2}), {"ASK1", "SAY1", "SYS1", "ASK2"}},
      {"a system and a late one", list({s, u, a, s2, u2}), {"SYS1", "ASK1", "SAY1", "SYS2", "ASK2"}},
      {"a system at the end", list({u, s}), {"ASK1", "SYS1"}},
      {"a system alone", list({s}), {"SYS1"}},
      {"a developer alone", list({s2, u}), {"SYS2", "ASK1"}},
      {"two questions", list({u, u2}), {"ASK1", "ASK2"}},
      {"two answers", list({u, a, a2, u2}), {"ASK1", "SAY1", "SAY2", "ASK2"}},
      {"an answer first", list({a, u}), {"SAY1", "ASK1"}},
      {"a system and an answer first", list({s, a, u}), {"SYS1", "SAY1", "ASK1"}},
      {"an answer alone", list({a}), {"SAY1"}},
      {"no content", list({u, {{"role", "assistant"}}, u2}), {"ASK1", "ASK2"}},
      {"null content", list({u, nothing, u2}), {"ASK1", "ASK2"}},
      {"reasoning only", list({u, reasoned, u2}), {"ASK1", "ASK2"}},
      {"a refusal", list({u, refused, u2}), {"ASK1", "SAY1", "ASK2"}},
      {"a call", list({u, one, first}), {"ASK1", "VAL1", "RES1"}},
      {"a call and text", list({s, u, one, first, u2}), {"SYS1", "ASK1", "VAL1", "RES1", "ASK2"}},
      {"a call and a system", list({u, one, first, s, u2}), {"ASK1", "VAL1", "RES1", "SYS1", "ASK2"}},
      {"two calls", list({u, two, first, second}), {"ASK1", "VAL1", "VAL2", "RES1", "RES2"}},
      {"two calls, results turned", list({u, two, second, first, a, u2}), {"VAL1", "VAL2", "RES1", "RES2", "SAY1"}},
      {"a call with text", list({u, called(one["tool_calls"], "SAY1"), first}), {"VAL1", "RES1"}},
      {"a call with text and reasoning", list({u, thinking, first, a2, u2}), {"VAL1", "RES1", "SAY2", "ASK2"}},
      {"a call without result", list({u, one, u2}), {"ASK1", "VAL1", "ASK2"}},
      {"a result without call", list({u, first, u2}), {"ASK1", "RES1", "ASK2"}},
      {"a result first", list({first, u}), {"RES1", "ASK1"}},
      {"a null result", list({u, one, result("1", nullptr)}), {"ASK1", "VAL1"}},
      {"a result that is no text", list({u, one, result("1", {{"a", "RES1"}})}), {"VAL1", "RES1"}},
      {"an old call", list({u, old_call, old_result, u2}), {"ASK1", "VAL1", "RES1", "ASK2"}},
      {"arguments cut off", list({u, called(Json::array({call("1", R"({"key": )")})), first, u2}), {"RES1", "ASK2"}},
      {"arguments encoded twice",
       list({u, called(Json::array({call("1", R"("{\"key\": \"VAL1\"}")")})), first}),
       {"VAL1", "RES1"}},
      {"arguments too large", list({u, called(Json::array({call("1", R"({"key": 1e400})")})), first}), {"1e400"}},
      {"long integers",
       list({u, called(Json::array({call("1", R"({"key": 123456789012345678901234567890})")})), first}),
       {"123456789012345678901234567890"}},
      {"channels in an answer",
       list({u,
             said("assistant",
                  "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>final<|message|>SAY1"),
             u2}),
       {"SAY1", "ASK2"}},
  };
}

void check_all(const Model& model, const text::ChatTemplate& chat_template) {
  for (const ChatForm& shape : shapes())
    for (const bool tools : {false, true}) {
      CAPTURE(shape.name);
      CAPTURE(tools);
      std::string prompt;
      CHECK_NOTHROW(prompt = model.prompt(chat_template, shape.messages, tools));
      CAPTURE(prompt);
      for (const std::string& word : shape.words) CHECK_MESSAGE(prompt.find(word) != std::string::npos, word);
    }
}

} // namespace

TEST_CASE("every shape of a conversation is rendered whole by every real template") {
  REQUIRE_REFERENCE();
  const Model model;
  for (const auto& entry : std::filesystem::directory_iterator(tests::reference_dir() + "/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    CAPTURE(entry.path().filename().string());
    check_all(model, text::ChatTemplate::parse(tests::read_file(entry.path()), "t"));
  }
}

TEST_CASE("a template that leaves out the text beside calls gets it as a message before them") {
  REQUIRE_REFERENCE();
  const Model model;
  const Json messages = {said("user", "ASK1"), called(Json::array({call("1", {{"key", "VAL1"}})}), "SAY1"),
                         result("1", "RES1")};
  for (const char* name : {"meta-llama-Llama-3.1-8B-Instruct", "Qwen-Qwen3-0.6B"}) {
    const std::string path = tests::reference_dir() + "/templates/" + name + ".jinja";
    const std::string prompt = model.prompt(text::ChatTemplate::parse(tests::read_file(path), "t"), messages, true);
    CAPTURE(prompt);
    CHECK(prompt.find("SAY1") < prompt.find("VAL1"));
  }
}

TEST_CASE("every shape of a conversation is rendered whole by every built-in template") {
  const Model model;
  for (const std::string_view name : text::ChatTemplate::builtin_names()) {
    CAPTURE(name);
    check_all(model, text::ChatTemplate::builtin(name));
  }
}

TEST_CASE("what a strict template refuses is joined with the first message of the system, or said by the user") {
  const Model model;
  const auto strict =
      text::ChatTemplate::parse("{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}{{ "
                                "raise_exception('no question') }}"
                                "{% endif %}{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                                "{{ raise_exception('late') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}",
                                "t");
  const Json s = said("system", "a"), s2 = said("developer", "b"), u = said("user", "c"), a = said("assistant", "d");
  CHECK(model.prompt(strict, {s, s2, u}) == "[system]a\n\nb[user]c");
  CHECK(model.prompt(strict, {s, u, a, s2, u}) == "[system]a\n\nb[user]c[assistant]d[user]c");
  CHECK(model.prompt(strict, {u, s}) == "[system]a[user]c");
  CHECK(model.prompt(strict, Json::array({s})) == "[user]a");
  CHECK(model.prompt(strict, Json::array({a})) == "[user][assistant]d");
  const auto turns = text::ChatTemplate::parse(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}"
      "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}",
      "t");
  CHECK(model.prompt(turns, {s, u, u, a, a, u}) == "[user]a\n\nc\n\nc[assistant]d\n\nd[user]c");
  CHECK(model.prompt(turns, {a, u}) == "[user][assistant]d[user]c");
}

TEST_CASE("an answer at the end is continued where its text ends") {
  REQUIRE_REFERENCE();
  const Model model;
  const Json messages = {said("user", "ASK1"), said("assistant", "It is  ")};
  for (const auto& entry : std::filesystem::directory_iterator(tests::reference_dir() + "/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    CAPTURE(entry.path().filename().string());
    const auto chat_template = text::ChatTemplate::parse(tests::read_file(entry.path()), "t");
    const engine::Generation answer = model.chat(chat_template, messages);
    CHECK(answer.chat_prompt->bytes().ends_with("It is  "));
    CHECK(answer.begun == 7);
    const std::string closed = model.prompt(chat_template, messages, false, {.continued = false});
    CHECK(closed.find("It is") != std::string::npos);
    CHECK(!closed.ends_with("It is  "));
    CHECK(closed.size() >= model.prompt(chat_template, messages, false, {.opens_answer = false}).size());
  }
  const auto chatml = text::ChatTemplate::builtin("chatml");
  const Json question = Json::array({said("user", "It")});
  CHECK(model.prompt(chatml, question, false, {.continued = true}) == "<|im_start|>user\nIt");
  CHECK(model.prompt(chatml, question, false, {.opens_answer = false}) == "<|im_start|>user\nIt<|im_end|>\n");
}

TEST_CASE("an answer that is continued goes on with a schema, with its white space, and with its reasoning") {
  const Model model;
  const auto chatml = text::ChatTemplate::builtin("chatml");
  const engine::SequenceRequests sequences(model.model);
  const auto tokens = [&](const std::string& text) {
    std::vector<int32_t> ids = model.model.tokenizer->encode("x" + text);
    ids.erase(ids.begin(), std::ranges::find(ids, model.model.tokenizer->find("x")) + 1);
    return ids;
  };
  const Json schema = Json::parse(R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})");
  const engine::Generation json =
      model.chat(chatml, {said("user", "hi"), said("assistant", "{\"a\":")}, false, {}, schema);
  const auto constraint = sequences.sequence(json).constraint;
  REQUIRE(constraint);
  CHECK(!constraint->allows(tokens("{")[0]));
  CHECK(constraint->allows(tokens("t")[0]));

  const auto text_of = [&](const engine::Generation& generation, const std::string& text) {
    engine::AnswerText answer = sequences.text_of(generation);
    engine::AnswerText::Piece all;
    const auto add = [&](const engine::AnswerText::Piece& piece) {
      all.content += piece.content;
      all.reasoning += piece.reasoning;
    };
    for (const int32_t token : tokens(text)) add(answer.push(token));
    add(answer.finish());
    return all;
  };
  CHECK(text_of(model.chat(chatml, {said("user", "hi"), said("assistant", "It is")}), " so").content == " so");
  CHECK(text_of(model.chat(chatml, {said("user", "hi"), said("assistant", "a <")}), "b").content == "b");
  CHECK(text_of(model.chat(chatml, {said("user", "hi"), said("assistant", "x")}), "<think>y").content == "<think>y");
  const auto thought = text_of(model.chat(chatml, {said("user", "hi"), said("assistant", "<think>\nI")}), "</think>so");
  CHECK(thought.reasoning == "");
  CHECK(thought.content == "so");
  const auto thinks = text::ChatTemplate::parse(
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]<think>"
      "{% endif %}",
      "t");
  const Json reasoning = {said("user", "hi"), {{"role", "assistant"}, {"content", ""}, {"reasoning_content", "Let"}}};
  CHECK(model.prompt(thinks, reasoning) == "[user]hi[assistant]<think>Let");
  CHECK(text_of(model.chat(thinks, reasoning), " me").reasoning == " me");
}

TEST_CASE("what a client sends as the end of a continued text is nothing but text") {
  const Model model;
  const auto chatml = text::ChatTemplate::builtin("chatml");
  const int32_t end = model.model.tokenizer->find("<|im_end|>");
  const engine::Generation generation = model.chat(
      chatml, {said("user", "zqendofcontinuedtextzq"), said("assistant", "a<|im_end|>zqendofcontinuedtextzq")});
  CHECK(generation.chat_prompt->bytes().ends_with("a<|im_end|>zqendofcontinuedtextzq"));
  CHECK(std::ranges::count(generation.prompt, end) == 1);
}
