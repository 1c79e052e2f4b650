// Chats with tiny random models and real chat templates, on a pseudo-terminal.
#include "app/support.h"
#include "models/architecture.h"
#include "support/recipes/recipe.h"

#include <nlohmann/json.hpp>

#include <regex>
#include <set>

using namespace ridge;
using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

struct Family {
  std::string recipe, chat_template;
  std::string begins, opens; // the prompt "hi": start of message and answer
};
const Family kFamilies[] = {
    {"lfm2-dense", "LFM2-8B-A1B", "<|im_start|>user\nhi<|im_end|>", "<|im_start|>assistant\n"},
    {"granitehybrid-dense", "ibm-granite-granite-3.3-2B-Instruct",
     "<|start_of_role|>user<|end_of_role|>hi<|end_of_text|>", "<|start_of_role|>assistant<|end_of_role|>"},
    {"gemma2-dense", "google-gemma-2-2b-it", "<start_of_turn>user\nhi<end_of_turn>", "<start_of_turn>model\n"},
    {"glm4moe-moe", "GLM-4.6", "<|user|>\nhi", "<|assistant|>"},
    {"gpt-oss-moe", "openai-gpt-oss-120b", "<|start|>user<|message|>hi<|end|>", "<|start|>assistant"},
};

// Byte-level BPE of printable characters, as many as fit.
gguf::Metadata tokenizer_of(const Recipe& recipe, const std::string& chat_template) {
  std::set<std::string> markers;
  const std::regex marker(R"(<\|[a-z_]+\|>|</?(start|end)_of_turn>|</?think>)");
  for (std::sregex_iterator it(chat_template.begin(), chat_template.end(), marker), end; it != end; ++it)
    markers.insert(it->str());
  std::vector<std::string> tokens = {"<eos>"}, merges = {"t h"};
  tokens.insert(tokens.end(), markers.begin(), markers.end());
  std::vector<int32_t> kinds(tokens.size(), 3);
  for (const char* space : {"\u0120", "\u010A"}) tokens.push_back(space);
  for (char c = '!'; c <= '~'; ++c) tokens.push_back(std::string(1, c));
  tokens.push_back("th");
  const size_t vocab = recipe.document["vocab"];
  while (tokens.size() < vocab) tokens.push_back("unused" + std::to_string(tokens.size()));
  REQUIRE(tokens.size() == vocab);
  kinds.resize(vocab, 1);
  gguf::Metadata metadata;
  metadata.set("tokenizer.ggml.model", "gpt2");
  metadata.set("tokenizer.ggml.pre", "gpt-2");
  metadata.set("tokenizer.ggml.tokens", tokens);
  metadata.set("tokenizer.ggml.token_type", kinds);
  metadata.set("tokenizer.ggml.merges", merges);
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{0});
  metadata.set("tokenizer.chat_template", chat_template);
  metadata.set("general.sampling.top_k", int32_t{9});
  return metadata;
}

} // namespace

TEST_CASE("families chat in a terminal with their own templates") {
  REQUIRE_REFERENCE();
  int chatted = 0;
  for (const Family& family : kFamilies) {
    CAPTURE(family.recipe);
    const Recipe recipe(family.recipe);
    const std::string architecture = recipe.document["metadata"][0][2];
    if (!models::find_architecture(architecture)) continue;
    const std::string chat_template = read_file(reference_dir() + "/templates/" + family.chat_template + ".jinja");
    const std::vector<std::byte> image = recipe.image(tokenizer_of(recipe, chat_template));
    const std::string path =
        folder().write(family.recipe + ".gguf", std::string(reinterpret_cast<const char*>(image.data()), image.size()));

    const Result prompt = run_ridge({"template", "-m", path, "--messages", "-"}, R"([{"role":"user","content":"hi"}])");
    CHECK(prompt.out.find(family.begins) != std::string::npos);
    CHECK(prompt.out.ends_with(family.opens));

    Terminal chat(
        {RIDGE_BINARY, "chat", "-m", path, "-n", "24", "-s", "1", "-t", "1", "-c", "4096", "--device", "cpu"},
        {{"TERM", "xterm"}, {"XDG_STATE_HOME", folder() / "state"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}});
    CHECK(chat.expect("sampling settings recommended by the model file: top-k 9"));
    for (const char* message : {"hi\r", "and then?\r"}) {
      REQUIRE(chat.expect("> "));
      chat.type(message);
      REQUIRE(chat.expect("· context "));
    }
    REQUIRE(chat.expect("> "));
    chat.type("/stats\r");
    CHECK(chat.expect("4 messages"));
    CHECK(chat.expect("the model file recommends top-k 9"));
    chat.type("/exit\r");
    CHECK(chat.exit_status() == 0);
    ++chatted;
  }
  CHECK(chatted >= 2);
}
