// Parses the calls of each family's template, split at every place.
#include "core/error.h"
#include "text/calls/call_parser.h"
#include "text/calls/call_pattern.h"
#include "text/calls/call_values.h"
#include "text/calls/call_writer.h"
#include "text/chat/chat_template.h"
#include "text/chat/reasoning.h"
#include "text/white_space.h"

#include "support/reference.h"

#include <algorithm>

using namespace ridge;
using namespace ridge::text;
using Json = nlohmann::ordered_json;

namespace {

const Json kParameters[] = {
    Json::parse(R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})"),
    Json::parse(R"({"type": "object", "properties": {"items": {"type": "array"}, "opt": {"type": "object"}}})")};

std::vector<Tool> tools() { return {{"get_weather", kParameters[0]}, {"add", kParameters[1]}}; }

const Json kArguments[] = {{{"city", "Bo\"nn <x>\nü"}, {"days", 3}}, {{"items", {1, 2.5}}, {"opt", {{"k", "v"}}}}};

const CallSyntax& syntax_of(std::string_view name) {
  const auto found = std::ranges::find(call_syntaxes(), name, &CallSyntax::name);
  REQUIRE(found != call_syntaxes().end());
  return *found;
}

struct Answer {
  std::string content;
  std::vector<ToolCall> calls;
  size_t ended = 0;
};

Answer read(const CallSyntax& syntax, const std::vector<std::string_view>& pieces) {
  CallParser parser(syntax, tools(), 1);
  Answer answer;
  const auto take = [&](const CallParser::Piece& piece) {
    answer.content += piece.content;
    for (const CallParser::Delta& delta : piece.calls) {
      if (delta.begins) answer.calls.push_back({delta.id, delta.name, {}});
      REQUIRE(delta.index < answer.calls.size());
      answer.calls[delta.index].arguments += delta.arguments;
      answer.ended += delta.ends;
    }
  };
  for (const std::string_view piece : pieces) take(parser.push(piece));
  take(parser.finish());
  return answer;
}

void check_calls(const Answer& answer, size_t count) {
  REQUIRE(answer.calls.size() == count);
  CHECK(answer.ended == count);
  for (size_t i = 0; i < count; ++i) {
    CHECK(answer.calls[i].name == tools()[i].name);
    CHECK(Json::parse(answer.calls[i].arguments, nullptr, false) == kArguments[i]);
    CHECK(!answer.calls[i].id.empty());
  }
}

std::vector<std::string_view> single_bytes(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
  return pieces;
}

// Whole, cut in two everywhere, and byte by byte.
void check_at_every_split(const CallSyntax& syntax, std::string_view text, size_t count, const std::string& content) {
  CAPTURE(syntax.name);
  CAPTURE(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const Answer answer = read(syntax, {text.substr(0, cut), text.substr(cut)});
    check_calls(answer, count);
    CHECK(answer.content == content);
  }
  const Answer answer = read(syntax, single_bytes(text));
  check_calls(answer, count);
  CHECK(answer.content == content);
}

// Calls of the first two tools, or one call if the syntax allows no more.
std::vector<ToolCall> calls_of_tools(const CallSyntax& syntax) {
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < (syntax.messages ? 1 : 2); ++i)
    calls.push_back({"abcdefgh" + std::to_string(i), tools()[i].name, kArguments[i].dump()});
  return calls;
}

} // namespace

TEST_CASE("calls as the families' templates write them are read, at every split") {
  const Json samples = Json::parse(tests::read_file(RIDGE_SOURCE_DIR "/tests/text/call_samples.json"));
  CHECK(samples.size() > 25);
  for (const Json& sample : samples) {
    CAPTURE(sample["family"]);
    std::string text = sample["text"];
    text.erase(text.find_last_not_of('\n') + 1);
    const CallSyntax& syntax = syntax_of(sample["syntax"].get<std::string>());
    check_at_every_split(syntax, text, sample["calls"], "");
    check_at_every_split(syntax, "I look it up.\n\n" + text, sample["calls"], "I look it up.");
  }
}

TEST_CASE("calls that the writer writes are read again") {
  for (const CallSyntax& syntax : call_syntaxes()) {
    CAPTURE(syntax.name);
    const std::vector<ToolCall> calls = calls_of_tools(syntax);
    const std::string text = write_calls(syntax, calls);
    check_at_every_split(syntax, text, calls.size(), "");
  }
  const std::string cut_off = write_calls(call_syntaxes()[0], std::vector<ToolCall>{{"1", "f", R"({"a": )"}});
  CHECK(cut_off.find(R"({"a": )") != std::string::npos);
}

TEST_CASE("real templates: their syntax is recognised, and what they write as calls is read") {
  REQUIRE_REFERENCE();
  struct Family {
    const char *file, *syntax;
    size_t calls; // per message; 0: unsupported
  };
  const Family families[] = {
      {"Qwen-Qwen2.5-7B-Instruct", "hermes", 2},
      {"Qwen-Qwen3-0.6B", "hermes", 2},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", 2},
      {"meta-llama-Llama-3.1-8B-Instruct", "llama3", 1},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama3", 1},
      {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-args", 2},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", 2},
      {"GLM-4.6", "glm-4", 2},
      {"moonshotai-Kimi-K2", "kimi-k2", 2},
      {"openai-gpt-oss-120b", "harmony", 1},
      {"LFM2-8B-A1B", "lfm2", 0},
      {"ibm-granite-granite-3.3-2B-Instruct", "granite3", 0},
  };
  for (const Family& family : families) {
    CAPTURE(family.file);
    const ChatTemplate chat = ChatTemplate::parse(
        tests::read_file(tests::reference_dir() + "/templates/" + family.file + ".jinja"), family.file);
    const CallSyntax* syntax = find_call_syntax(chat.source());
    REQUIRE(syntax != nullptr);
    CHECK(syntax->name == family.syntax);
    if (family.calls == 0) continue;
    ChatOptions options;
    options.bos_token = "<s>";
    options.eos_token = "</s>";
    options.tools = Json::array();
    for (const Tool& tool : tools())
      options.tools.push_back(
          {{"type", "function"},
           {"function", {{"name", tool.name}, {"description", "d"}, {"parameters", tool.parameters}}}});
    for (Json& one : options.tools)
      for (auto& [key, schema] : one["function"]["parameters"]["properties"].items())
        schema["description"] = "of " + key;
    Json messages = Json::parse(R"([{"role": "user", "content": "How is it?"}])");
    const std::string prompt = chat.render(messages, options);
    Json calls = Json::array();
    for (size_t i = 0; i < family.calls; ++i)
      calls.push_back({{"id", "abcdefgh" + std::to_string(i)},
                       {"type", "function"},
                       {"function", {{"name", tools()[i].name}, {"arguments", kArguments[i]}}}});
    messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
    options.add_generation_prompt = false;
    const std::string whole = chat.render(messages, options);
    const size_t same = static_cast<size_t>(std::ranges::mismatch(whole, prompt).in1 - whole.begin());
    const std::string text = whole.substr(same);
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ReasoningSplitter splitter(prompt, true);
      const std::string first = splitter.push(text.substr(0, cut)).answer;
      const std::string second = splitter.push(text.substr(cut)).answer, rest = splitter.finish().answer;
      const Answer answer = read(*syntax, {first, second, rest});
      check_calls(answer, family.calls);
    }
  }
}

TEST_CASE("a template without tools has no syntax, and a built-in one has none") {
  CHECK(find_call_syntax("{{ messages[0].content }}") == nullptr);
  for (const std::string_view name : ChatTemplate::builtin_names())
    CHECK(find_call_syntax(ChatTemplate::builtin(name).source()) == nullptr);
  CHECK(generic_call_syntax().name == "hermes");
}

TEST_CASE("what is no call stays text, and a call that is cut short does not end") {
  const CallSyntax& hermes = generic_call_syntax();
  const char* texts[] = {
      "Hello <tool_call", "<tool_call> is a tag", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
      "<tool_call><tool_call>", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": [1]}\n</tool_call>"};
  for (const std::string_view text : texts) {
    CAPTURE(text);
    for (const auto& pieces : {std::vector<std::string_view>{text}, single_bytes(text)}) {
      const Answer answer = read(hermes, pieces);
      CHECK(answer.calls.empty());
      CHECK(answer.content == text);
    }
  }
  const std::string whole = write_calls(hermes, std::vector<ToolCall>{{"", "get_weather", kArguments[0].dump()}});
  const size_t begins = whole.find("{\"city"), ends = whole.rfind("}\n</tool_call>");
  for (size_t size = begins + 1; size < ends; ++size) {
    const Answer answer = read(hermes, single_bytes(std::string_view(whole).substr(0, size)));
    REQUIRE(answer.calls.size() == 1);
    CHECK(answer.ended == 0);
    CHECK(whole.substr(begins, size - begins) == answer.calls[0].arguments);
  }
  const Answer nested = read(hermes, single_bytes("<tool_call>" + whole + "\nSo.\n" + whole));
  CHECK(nested.content == "<tool_call>\nSo.");
  CHECK(nested.ended == 2);
  CHECK(nested.calls[0].id != nested.calls[1].id);
}

TEST_CASE("marks behind a call that a limit cuts short are no text") {
  for (const CallSyntax& syntax : call_syntaxes()) {
    CAPTURE(syntax.name);
    const std::vector<ToolCall> calls = calls_of_tools(syntax);
    const std::string text = write_calls(syntax, calls);
    const size_t second = std::min(text.find(tools()[1].name), text.size() - 1) + 1;
    for (size_t size = 0; size <= second; ++size) {
      CAPTURE(text.substr(0, size));
      const Answer answer = read(syntax, single_bytes(std::string_view(text).substr(0, size)));
      if (answer.ended == 1) CHECK(answer.content == "");
    }
  }
}

TEST_CASE("marks inside of arguments belong to them") {
  for (const CallSyntax& syntax : call_syntaxes()) {
    if (syntax.arguments == ArgumentForm::tagged || syntax.arguments == ArgumentForm::gemma) continue;
    CAPTURE(syntax.name);
    std::string marks = " } ] ) \\ ' ";
    for (const std::string_view mark : {syntax.open, syntax.close, syntax.call_open, syntax.call_close, syntax.between})
      marks += write_pattern(mark, {.name = "get_weather"});
    const Json arguments = {{"city", marks}, {"days", -1}};
    const std::string text = write_calls(syntax, std::vector<ToolCall>{{"abcdefghi", "get_weather", arguments.dump()}});
    const Answer answer = read(syntax, single_bytes(text));
    REQUIRE(answer.ended == 1);
    CHECK(Json::parse(answer.calls[0].arguments) == arguments);
    CHECK(answer.content == "");
  }
}

TEST_CASE("what closes a tagged value does so only before the next key or the end of the call") {
  for (const CallSyntax& syntax : call_syntaxes()) {
    if (syntax.arguments != ArgumentForm::tagged || syntax.cdata) continue;
    CAPTURE(syntax.name);
    const std::string close(trim(syntax.value_close));
    for (const std::string& city :
         {"A ends with " + close + " here.", close + " x", close + close + "\n\n y " + close + "."}) {
      CAPTURE(city);
      const Json arguments = {{"city", city}, {"days", 3}};
      const std::string text =
          write_calls(syntax, std::vector<ToolCall>{{"abcdefghi", "get_weather", arguments.dump()}});
      const auto check = [&](const Answer& answer) {
        REQUIRE(answer.calls.size() == 1);
        CHECK(answer.ended == 1);
        CHECK(answer.content == "");
        CHECK(Json::parse(answer.calls[0].arguments, nullptr, false) == arguments);
      };
      for (size_t cut = 0; cut <= text.size(); ++cut)
        check(read(syntax, {std::string_view(text).substr(0, cut), std::string_view(text).substr(cut)}));
      check(read(syntax, single_bytes(text)));
    }
  }
  const CallSyntax& qwen = syntax_of("qwen3-coder");
  const auto city = [&](const std::string& text) {
    const Answer answer = read(qwen, single_bytes("<tool_call>\n<function=get_weather>\n<parameter=city>\n" + text));
    REQUIRE(answer.calls.size() == 1);
    return answer.calls[0].arguments;
  };
  CHECK(city("x\n</parameter>\n</tool_call>") == R"({"city": "x"})");
  CHECK(city("x\n</parameter>\n") == R"({"city": "x"})");
  CHECK(city("x\n</parameter>\n</func") == R"({"city": "x"})");
  CHECK(city("x\n</parameter>\ny") == R"({"city": "x\n</parameter>\ny)");
}

TEST_CASE("JSON that nests so deep that recursive code runs out of stack is no argument but text") {
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  const std::string answer =
      "<tool_call>\n<function=add>\n<parameter=items>\n" + deep + "\n</parameter>\n</function>\n</tool_call>";
  const Answer read_answer = read(syntax_of("qwen3-coder"), {answer});
  REQUIRE(read_answer.calls.size() == 1);
  CHECK(Json::parse(read_answer.calls[0].arguments)["items"].is_string());
  CHECK(parse_json("{\"a\": " + deep + "}").is_discarded());
  CHECK(parse_json(std::string(64, '[') + std::string(64, ']')).is_array());
  CHECK(parse_json(std::string(66, '[') + std::string(66, ']')).is_discarded());
}

TEST_CASE("llama's calls in bare JSON are calls only at the beginning, of functions that there are") {
  const CallSyntax& llama = syntax_of("llama3");
  const std::string call = R"({"name": "get_weather", "parameters": {"city": "Bonn"}})";
  CHECK(read(llama, single_bytes(call)).ended == 1);
  CHECK(read(llama, single_bytes("<|python_tag|>" + call)).ended == 1);
  CHECK(read(llama, single_bytes("\n\n" + call)).ended == 1);
  CHECK(read(llama, single_bytes(R"({"type": "function", "name": "add", "parameters": {}})")).ended == 1);
  for (const std::string& text : {"Say " + call, std::string(R"({"name": "Anna", "age": 3})"), std::string("{}")}) {
    const Answer answer = read(llama, single_bytes(text));
    CHECK(answer.calls.empty());
    CHECK(answer.content == text);
  }
}

TEST_CASE("ids come from the text where it has them before the arguments") {
  const Answer mistral = read(syntax_of("mistral-args"), {"[TOOL_CALLS]add[CALL_ID]abcdefgh7[ARGS]{}"});
  CHECK(mistral.calls[0].id == "abcdefgh7");
  const Answer none = read(syntax_of("mistral"), {R"([TOOL_CALLS] [{"name": "add", "arguments": {}}])"});
  CHECK(none.calls[0].id.size() == 9);
  const Answer kimi = read(syntax_of("kimi-k2"), {"<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
                                                  "<|tool_call_argument_begin|>{}<|tool_call_end|>"});
  CHECK(kimi.calls[0].id == "functions.add:0");
  CHECK(read(generic_call_syntax(), {"<tool_call>{\"name\": \"add\", \"arguments\": {}}"})
            .calls[0]
            .id.starts_with("call_"));
}
