// Real templates against Jinja2, built-in ones, the choice per file.
#include "gguf/writer.h"
#include "text/chat/chat_template.h"

#include "core/error.h"
#include "support/reference.h"

using namespace ridge;
using nlohmann::ordered_json;
using text::ChatOptions;
using text::ChatTemplate;

namespace {

const ordered_json kTalk = ordered_json::parse(R"([
  {"role": "system", "content": "S"}, {"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1"},
  {"role": "user", "content": [{"type": "text", "text": "U"}, {"type": "text", "text": "2"}]}])");

std::string with(std::string_view name, const ordered_json& messages = kTalk) {
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  return ChatTemplate::builtin(name).render(messages, options);
}

gguf::File file_with(const std::vector<std::pair<std::string, std::string>>& entries,
                     const std::vector<std::string>& tokens = {}) {
  static std::vector<std::vector<std::byte>> images; // must outlive the files
  std::vector<std::byte>& image = images.emplace_back();
  std::string bytes = "GGUF";
  const auto number = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto text = [&](std::string_view t) { number(uint64_t{t.size()}), bytes += t; };
  number(uint32_t{3}), number(uint64_t{0}), number(uint64_t{entries.size() + !tokens.empty()});
  for (const auto& [key, value] : entries) text(key), number(uint32_t{8}), text(value);
  if (!tokens.empty()) {
    text("tokenizer.ggml.tokens"), number(uint32_t{9}), number(uint32_t{8}), number(uint64_t{tokens.size()});
    for (const std::string& token : tokens) text(token);
  }
  for (const char c : bytes) image.push_back(static_cast<std::byte>(c));
  return gguf::File::from_span(image, "model.gguf");
}

} // namespace

TEST_CASE("real templates render to the byte what Jinja2 renders, and refuse what it refuses") {
  REQUIRE_REFERENCE();
  const std::string folder = tests::reference_dir() + "/templates/";
  const ordered_json all = ordered_json::parse(tests::read_file(folder + "cases.json"));
  for (const ordered_json& one : all["cases"]) {
    const std::string name = one["template"], conversation = one["conversation"];
    CAPTURE(name);
    CAPTURE(conversation);
    ChatOptions options;
    options.add_generation_prompt = one["add_generation_prompt"];
    options.bos_token = all["bos_token"];
    options.eos_token = all["eos_token"];
    options.now = text::parse_time(all["now"].get<std::string>());
    const ChatTemplate chat = ChatTemplate::parse(tests::read_file(folder + name + ".jinja"), name);
    if (one["error"].is_null())
      CHECK(chat.render(all["conversations"][conversation], options) == one["expected"].get<std::string>());
    else
      CHECK_THROWS_AS(chat.render(all["conversations"][conversation], options), Error);
  }
}

TEST_CASE("the built-in templates write their formats") {
  CHECK(with("plain") == "S\nU1\nA1\nU2");
  CHECK(with("chatml") ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
        "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n");
  CHECK(with("llama2") == "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 </s><s>[INST] U2 [/INST]");
  CHECK(with("llama3") == "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_"
                          "header_id|>\n\nU1<|eot_id|>"
                          "<|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|><|start_header_id|>user<|end_"
                          "header_id|>\n\nU2<|eot_id|>"
                          "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(with("mistral-v1") == "<s> [INST] S\n\nU1 [/INST] A1</s> [INST] U2 [/INST]");
  CHECK(with("mistral-v3") == "<s>[INST] S\n\nU1[/INST] A1</s>[INST] U2[/INST]");
  CHECK(with("mistral-v3-tekken") == "<s>[INST]S\n\nU1[/INST]A1</s>[INST]U2[/INST]");
  CHECK(with("mistral-v7") == "<s>[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] U1[/INST] A1</s>[INST] U2[/INST]");
  CHECK(with("mistral-v7-tekken") == "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U1[/INST]A1</s>[INST]U2[/INST]");
  CHECK(with("gemma") == "<s><start_of_turn>user\nS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
                         "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n");
  CHECK(with("phi3") ==
        "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\nU2<|end|>\n<|assistant|>\n");
  CHECK(with("phi4") ==
        "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U1<|im_end|><|im_start|>assistant<|im_sep|>A1"
        "<|im_end|><|im_start|>user<|im_sep|>U2<|im_end|><|im_start|>assistant<|im_sep|>");
  CHECK(with("deepseek2") == "<s>S\n\nUser: U1\n\nAssistant: A1</s>User: U2\n\nAssistant:");
  CHECK(with("deepseek3") == "<s>S<｜User｜>U1<｜Assistant｜>A1<｜end▁of▁sentence｜><｜User｜>U2<｜Assistant｜>");
  CHECK(with("zephyr") ==
        "<|system|>\nS</s>\n<|user|>\nU1</s>\n<|assistant|>\nA1</s>\n<|user|>\nU2</s>\n<|assistant|>\n");
  CHECK(with("vicuna") == "<s>S USER: U1 ASSISTANT: A1</s>USER: U2 ASSISTANT:");
  CHECK(with("command-r") ==
        "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>U1"
        "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>A1<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
        "<|USER_TOKEN|>U2<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
  CHECK(with("gpt-oss") == "<|start|>system<|message|>S<|end|><|start|>user<|message|>U1<|end|><|start|>assistant<|"
                           "channel|>final<|message|>A1"
                           "<|end|><|start|>user<|message|>U2<|end|><|start|>assistant");
}

TEST_CASE("every built-in template takes every conversation, and says what was said") {
  for (const std::string_view name : ChatTemplate::builtin_names()) {
    CAPTURE(name);
    const std::string prompt = with(name);
    for (const char* said : {"S", "U1", "A1", "U2"}) CHECK(prompt.find(said) != prompt.npos);
    CHECK(with(name, ordered_json::parse(R"([{"role": "user", "content": "{{ x }}"}])")).find("{{ x }}") !=
          std::string::npos);
    CHECK_NOTHROW(with(name, ordered_json::parse(R"([{"role": "assistant", "content": null}])")));
  }
}

TEST_CASE("an unknown built-in name is refused with the names there are") {
  CHECK_THROWS_WITH_AS(ChatTemplate::builtin("lama"),
                       doctest::Contains("unknown built-in chat template 'lama'; expected one of plain, chatml"),
                       Error);
}

TEST_CASE("messages that are no messages are refused") {
  const ChatTemplate chat = ChatTemplate::builtin("chatml");
  CHECK_THROWS_WITH_AS(chat.render("hello", {}), doctest::Contains("expected a JSON array"), Error);
  CHECK_THROWS_WITH_AS(chat.render({{{"content", "x"}}}, {}), doctest::Contains("message 0"), Error);
}

TEST_CASE("a template sees tools, documents and extra variables") {
  ChatOptions options;
  options.tools = ordered_json::parse(R"([{"name": "f"}])");
  options.extra["enable_thinking"] = false;
  const ChatTemplate chat =
      ChatTemplate::parse("{{ tools[0].name }} {{ documents is none }} {{ enable_thinking }}", "t");
  CHECK(chat.render(ordered_json::array(), options) == "f True False");
}

TEST_CASE("times are read, and impossible ones refused") {
  const std::tm time = text::parse_time("2026-01-15T12:34:56");
  CHECK(time.tm_year == 126);
  CHECK(time.tm_mon == 0);
  CHECK(time.tm_hour == 12);
  CHECK(time.tm_sec == 56);
  CHECK(time.tm_wday == 4);
  CHECK(text::parse_time("2024-02-29").tm_yday == 59);
  for (const char* wrong : {"", "now", "2026-13-01", "2025-02-29", "2026-01-15T12:00", "2026-01-15T12:00:00Z"})
    CHECK_THROWS_AS(text::parse_time(wrong), Error);
}

TEST_CASE("a file's own template is chosen, the wanted variant first") {
  const std::string key = "tokenizer.chat_template";
  const gguf::File both = file_with({{key, "default"}, {key + ".tool_use", "tools"}});
  CHECK(text::choose_chat_template(both).origin == key);
  const auto tools = text::choose_chat_template(both, "tool_use");
  CHECK(tools.origin == key + ".tool_use");
  CHECK(tools.chat_template.render(ordered_json::array(), {}) == "tools");
  CHECK(text::choose_chat_template(both, "rag").origin == key);
  CHECK_THROWS_WITH_AS(text::choose_chat_template(file_with({{key, "{% if"}})),
                       doctest::Contains("model.gguf: tokenizer.chat_template:1:1: "), Error);
}

TEST_CASE("a file may name a built-in template in place of Jinja") {
  const auto chosen = text::choose_chat_template(file_with({{"tokenizer.chat_template", "granite-4.0"}}));
  CHECK(chosen.origin == "tokenizer.chat_template");
  CHECK(chosen.chat_template.render(kTalk, {}) == with("granite"));
}

TEST_CASE("a file without a template gets the one of its tokens, then of its architecture, else plain") {
  const auto guess = [](const std::vector<std::pair<std::string, std::string>>& entries,
                        const std::vector<std::string>& tokens) {
    const auto chosen = text::choose_chat_template(file_with(entries, tokens));
    CHECK(chosen.origin.empty());
    return chosen.chat_template.name();
  };
  CHECK(guess({}, {"a", "<|im_end|>", "<|im_start|>"}) == "chatml");
  CHECK(guess({}, {"<|im_end|>", "<|im_start|>", "<|im_sep|>"}) == "phi4");
  CHECK(guess({}, {"<|start_header_id|>", "<|end_header_id|>"}) == "llama3");
  CHECK(guess({}, {"<start_of_turn>", "<end_of_turn>"}) == "gemma");
  CHECK(guess({}, {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"}) == "gpt-oss");
  CHECK(guess({}, {"[INST]", "[/INST]"}) == "mistral-v3");
  CHECK(guess({{"tokenizer.ggml.pre", "tekken"}}, {"[INST]", "[SYSTEM_PROMPT]"}) == "mistral-v7-tekken");
  CHECK(guess({{"general.architecture", "olmo2"}}, {"a"}) == "olmo2");
  CHECK(guess({{"general.architecture", "llama"}}, {"a", "<|im_start|>"}) == "plain");
  CHECK(guess({}, {}) == "plain");
}
