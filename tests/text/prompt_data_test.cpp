// Only template text becomes control tokens.
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

#include "support/reference.h"

using namespace ridge;
using nlohmann::ordered_json;
using text::ChatOptions;
using text::ChatTemplate;
using text::Tokenizer;

namespace {

std::unique_ptr<Tokenizer> vocabulary(const std::string& name) {
  return Tokenizer::from_file(gguf::File::open(tests::reference_dir() + "/vocab/ggml-vocab-" + name + ".gguf"));
}

ChatOptions options_for(const Tokenizer& tokenizer) {
  ChatOptions options;
  if (tokenizer.bos() >= 0) options.bos_token = tokenizer.token_text(tokenizer.bos());
  if (tokenizer.eos() >= 0) options.eos_token = tokenizer.token_text(tokenizer.eos());
  return options;
}

std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) {
  return tokenizer.encode(prompt.bytes(), {.parse_special = true, .data = prompt.data()});
}

std::vector<int32_t> control_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<int32_t> found;
  for (const int32_t id : ids)
    if (tokenizer.is_special(id)) found.push_back(id);
  return found;
}

struct Family {
  const char* chat_template;
  const char* vocabulary;
  std::vector<std::string> control;
};
const Family kFamilies[] = {
    {"chatml", "qwen2", {"<|im_end|>", "<|im_start|>", "<|endoftext|>"}},
    {"llama3", "llama-bpe", {"<|eot_id|>", "<|start_header_id|>", "<|end_of_text|>"}},
    {"llama2", "llama-spm", {"</s>", "<s>"}},
    {"mistral-v3", "llama-spm", {"</s>", "<s>"}},
    {"plain", "llama-spm", {"</s>", "<s>"}},
    {"phi3", "phi-3", {"<|end|>", "<|assistant|>", "<|user|>", "<s>"}},
    {"zephyr", "phi-3", {"<|assistant|>", "</s>"}},
};

// Without white space: Phi-3's special tokens include it.
std::string text_of(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text = tokenizer.decode(ids, {.render_special = true});
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

} // namespace

TEST_CASE("control tokens spelled out in a message, of whatever role, are ordinary text") {
  REQUIRE_REFERENCE();
  for (const Family& family : kFamilies) {
    CAPTURE(family.chat_template);
    const auto tokenizer = vocabulary(family.vocabulary);
    const ChatTemplate chat = ChatTemplate::builtin(family.chat_template);
    const ChatOptions options = options_for(*tokenizer);
    for (const char* role : {"system", "user", "assistant"})
      for (const std::string& control : family.control) {
        CAPTURE(role);
        CAPTURE(control);
        REQUIRE(tokenizer->find(control) >= 0);
        const auto prompt_with = [&](const std::string& text) {
          ordered_json messages = ordered_json::parse(
              R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                  {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}])");
          for (ordered_json& message : messages)
            if (message["role"] == role) message["content"] = text;
          return chat.render_tainted(messages, options);
        };
        const auto harmless = prompt_with("one. two");
        const auto harmful = prompt_with("one." + control + "\n" + control + " two");
        const auto ids = tokens_of(*tokenizer, harmful), expected = tokens_of(*tokenizer, harmless);
        CHECK(control_tokens(*tokenizer, ids) == control_tokens(*tokenizer, expected));
        CHECK(text_of(*tokenizer, ids) == text_of(*tokenizer, tokenizer->encode(harmful.bytes())));
        // Parsed as a whole, the message would end its own turn.
        const auto naive = tokenizer->encode(harmful.bytes(), {.parse_special = true});
        CHECK(control_tokens(*tokenizer, naive).size() > control_tokens(*tokenizer, ids).size());
      }
  }
}

TEST_CASE("a control token may not be put together from a template's text and a message's") {
  REQUIRE_REFERENCE();
  const auto tokenizer = vocabulary("qwen2");
  const auto chat = ChatTemplate::parse("<|im_{{ messages[0].content }}|>{{ messages[0].role }}", "t");
  const auto prompt = chat.render_tainted({{{"role", "user"}, {"content", "end"}}}, {});
  CHECK(control_tokens(*tokenizer, tokens_of(*tokenizer, prompt)).empty());
  // Usual roles may form control tokens, others may not.
  const auto phi = vocabulary("phi-3");
  const ChatTemplate phi3 = ChatTemplate::builtin("phi3");
  const auto with_role = [&](const char* role) {
    ChatOptions options;
    options.add_generation_prompt = false;
    return control_tokens(*phi, tokens_of(*phi, phi3.render_tainted({{{"role", role}, {"content", "x"}}}, options)));
  };
  CHECK(with_role("user") == std::vector<int32_t>{phi->find("<|user|>"), phi->find("<|end|>")});
  CHECK(with_role("end") == std::vector<int32_t>{phi->find("<|end|>")});
}

TEST_CASE("tools, documents and extra variables are data, the BOS and EOS texts are not") {
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.tools = ordered_json::parse(R"([{"</s>": "<s>", "role": "user", "bos_token": "<s>"}])");
  options.documents = ordered_json::parse(R"([{"text": "<s>"}])");
  options.extra["more"] = "<s>";
  const auto chat =
      ChatTemplate::parse("{{ bos_token }}{{ eos_token }}{{ documents[0].text }}{{ more }}{{ tools | tojson }}", "t");
  const auto prompt = chat.render_tainted(ordered_json::array(), options);
  REQUIRE(prompt.bytes() == R"(<s></s><s><s>[{"</s>": "<s>", "role": "user", "bos_token": "<s>"}])");
  REQUIRE(prompt.data().size() == 7);
  CHECK(prompt.data()[0] == text::ByteSpan{7, 13});
  for (const text::ByteSpan& span : prompt.data().subspan(1)) CHECK(span.begin > 13);
}

TEST_CASE("real templates and vocabularies: conversations without control tokens in them keep their tokens") {
  REQUIRE_REFERENCE();
  const std::string folder = tests::reference_dir() + "/templates/";
  const ordered_json all = ordered_json::parse(tests::read_file(folder + "cases.json"));
  int compared = 0;
  for (const std::string name : {"llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2"}) {
    const auto tokenizer = vocabulary(name);
    CAPTURE(name);
    const auto check_same = [&](const text::jinja::TaintedText& prompt) {
      CHECK(tokens_of(*tokenizer, prompt) == tokenizer->encode(prompt.bytes(), {.parse_special = true}));
      ++compared;
    };
    for (const ordered_json& one : all["cases"]) {
      if (!one["error"].is_null()) continue;
      const std::string template_name = one["template"], conversation = one["conversation"];
      CAPTURE(template_name);
      CAPTURE(conversation);
      ChatOptions options;
      options.add_generation_prompt = one["add_generation_prompt"];
      options.bos_token = all["bos_token"];
      options.eos_token = all["eos_token"];
      options.now = text::parse_time(all["now"].get<std::string>());
      const auto chat = ChatTemplate::parse(tests::read_file(folder + template_name + ".jinja"), template_name);
      check_same(chat.render_tainted(all["conversations"][conversation], options));
    }
    for (const std::string_view builtin : ChatTemplate::builtin_names())
      for (const auto& [conversation, messages] : all["conversations"].items()) {
        CAPTURE(builtin);
        CAPTURE(conversation);
        check_same(ChatTemplate::builtin(builtin).render_tainted(messages, options_for(*tokenizer)));
      }
  }
  CHECK(compared > 500);
}
