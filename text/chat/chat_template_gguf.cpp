// Chooses a model file's chat template. For old and converted files without one, special tokens usually identify the
// format.
#include "text/chat/chat_template.h"

#include "core/error.h"

#include <algorithm>
#include <set>

namespace ridge::text {
namespace {

// The first row with all its tokens wins.
struct Guess {
  std::string_view name;
  std::string_view tokens[3];
};
constexpr Guess kByTokens[] = {
    {"gpt-oss", {"<|start|>", "<|channel|>", "<|message|>"}},
    {"gemma4", {"<|turn>", "<turn|>"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
    {"llama3", {"<|start_header_id|>", "<|end_header_id|>"}},
    {"llama4", {"<|header_start|>", "<|header_end|>"}},
    {"kimi-k2", {"<|im_user|>", "<|im_middle|>"}},
    {"phi4", {"<|im_start|>", "<|im_sep|>"}},
    {"smolvlm", {"<|im_start|>", "<end_of_utterance>"}},
    {"chatml", {"<|im_start|>", "<|im_end|>"}},
    {"granite", {"<|start_of_role|>", "<|end_of_role|>"}},
    {"command-r", {"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}},
    {"deepseek3", {"<｜User｜>", "<｜Assistant｜>"}},
    {"hunyuan-dense", {"<｜hy_User｜>", "<｜hy_Assistant｜>"}},
    {"hunyuan-moe", {"<|startoftext|>", "<|extra_0|>", "<|extra_4|>"}},
    {"seed-oss", {"<seed:bos>"}},
    {"minimax-m2", {"]~b]", "[e~["}},
    {"chatglm4", {"[gMASK]", "<sop>"}},
    {"chatglm3", {"[gMASK]", "sop"}},
    {"exaone-moe", {"<|user|>", "<|endofturn|>"}},
    {"solar-open", {"<|begin|>", "<|content|>"}},
    {"bailing2", {"<role>", "<|role_end|>"}},
    {"bailing", {"<role>", "</role>"}},
    {"megrez", {"<|role_start|>", "<|turn_end|>"}},
    {"phi3", {"<|user|>", "<|assistant|>", "<|end|>"}},
    {"mistral-v7", {"[SYSTEM_PROMPT]", "[INST]"}},
    {"mistral-v3", {"[INST]", "[/INST]"}},
};

struct Known {
  std::string_view architecture, name;
};
constexpr Known kByArchitecture[] = {
    {"deepseek", "deepseek2"}, {"deepseek2", "deepseek2"},  {"olmo2", "olmo2"},    {"olmoe", "olmo2"},
    {"exaone", "exaone3"},     {"exaone4", "exaone4"},      {"ernie4_5", "ernie"}, {"ernie4_5-moe", "ernie"},
    {"rwkv6", "rwkv-world"},   {"rwkv7", "rwkv-world"},     {"grok", "grok-2"},    {"minicpm", "minicpm"},
    {"bailingmoe", "bailing"}, {"bailingmoe2", "bailing2"},
};

std::string guess(const gguf::File& file) {
  std::set<std::string_view> wanted, found;
  for (const Guess& row : kByTokens) wanted.insert(std::begin(row.tokens), std::end(row.tokens));
  if (const gguf::Value* tokens = file.find("tokenizer.ggml.tokens"); tokens && tokens->is_array())
    if (const auto strings = tokens->as_strings())
      for (const std::string_view token : *strings)
        if (wanted.contains(token)) found.insert(token);
  for (const Guess& row : kByTokens) {
    if (!std::ranges::all_of(row.tokens, [&](std::string_view t) { return t.empty() || found.contains(t); })) continue;
    const bool tekken = row.name.starts_with("mistral") && file.get_string("tokenizer.ggml.pre", "") == "tekken";
    return std::string(row.name) + (tekken ? "-tekken" : "");
  }
  const std::string_view architecture = file.get_string("general.architecture", "");
  const auto known = std::ranges::find(kByArchitecture, architecture, &Known::architecture);
  return std::string(known == std::end(kByArchitecture) ? kPlainTemplate : known->name);
}

} // namespace

ChosenTemplate choose_chat_template(const gguf::File& file, std::string_view variant) {
  std::vector<std::string> keys{"tokenizer.chat_template"};
  if (!variant.empty()) keys.insert(keys.begin(), fmt::format("tokenizer.chat_template.{}", variant));
  for (std::string& key : keys) {
    const std::string_view source = file.get_string(key, "");
    if (source.empty()) continue;
    if (ChatTemplate::is_builtin(source)) return {ChatTemplate::builtin(source), std::move(key)};
    return {ChatTemplate::parse(source, fmt::format("{}: {}", file.path(), key)), std::move(key)};
  }
  return {ChatTemplate::builtin(guess(file)), ""};
}

} // namespace ridge::text
