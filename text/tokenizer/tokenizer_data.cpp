// Reads tokenizer.ggml.* of GGUF.
#include "text/tokenizer/tokenizer.h"

#include "core/error.h"

#include <cctype>
#include <iterator>

namespace ridge::text {
namespace {

const gguf::Value* find_array(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  if (value && !value->is_array())
    throw_error("{}: {}: expected an array, found {}", file.path(), key, gguf::name_of(value->type()));
  return value;
}

std::vector<std::string_view> get_strings(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = find_array(file, key);
  if (!value) return {};
  auto strings = value->as_strings();
  if (!strings)
    throw_error("{}: {}: expected an array of strings, found one of {}", file.path(), key,
                gguf::name_of(value->element_type()));
  return std::move(*strings);
}

std::vector<float> get_scores(const gguf::File& file) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  const gguf::Value* value = find_array(file, key);
  if (!value) return {};
  auto scores = value->as_floats();
  if (!scores)
    throw_error("{}: {}: expected an array of numbers, found one of {}", file.path(), key,
                gguf::name_of(value->element_type()));
  return std::move(*scores);
}

std::vector<TokenKind> get_kinds(const gguf::File& file) {
  constexpr std::string_view key = "tokenizer.ggml.token_type";
  const gguf::Value* value = find_array(file, key);
  if (!value) return {};
  const auto numbers = value->as_ints();
  if (!numbers)
    throw_error("{}: {}: expected an array of integers, found one of {}", file.path(), key,
                gguf::name_of(value->element_type()));
  std::vector<TokenKind> kinds;
  kinds.reserve(numbers->size());
  for (const int64_t number : *numbers) // others count as normal
    kinds.push_back(number >= 1 && number <= 6 ? static_cast<TokenKind>(number) : TokenKind::normal);
  return kinds;
}

std::string_view get_charsmap(const gguf::File& file) {
  constexpr std::string_view key = "tokenizer.ggml.precompiled_charsmap";
  const gguf::Value* value = find_array(file, key);
  if (!value || value->size() == 0) return {};
  if (value->element_type() != gguf::ValueType::u8 && value->element_type() != gguf::ValueType::i8)
    throw_error("{}: {}: expected an array of bytes, found one of {}", file.path(), key,
                gguf::name_of(value->element_type()));
  const auto bytes = value->payload().last(value->size()); // after the element type and count
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct SpecialKey {
  std::string_view key;
  int32_t SpecialIds::*id;
};
constexpr SpecialKey kSpecialKeys[] = {
    {"tokenizer.ggml.bos_token_id", &SpecialIds::bos},
    {"tokenizer.ggml.eos_token_id", &SpecialIds::eos},
    {"tokenizer.ggml.eot_token_id", &SpecialIds::eot},
    {"tokenizer.ggml.eom_token_id", &SpecialIds::eom},
    {"tokenizer.ggml.unknown_token_id", &SpecialIds::unknown},
    {"tokenizer.ggml.seperator_token_id", &SpecialIds::separator}, // the format's spelling
    {"tokenizer.ggml.padding_token_id", &SpecialIds::padding},
    {"tokenizer.ggml.mask_token_id", &SpecialIds::mask},
    {"tokenizer.ggml.prefix_token_id", &SpecialIds::fim_prefix}, // older names, also the next two
    {"tokenizer.ggml.suffix_token_id", &SpecialIds::fim_suffix},
    {"tokenizer.ggml.middle_token_id", &SpecialIds::fim_middle},
    {"tokenizer.ggml.fim_pre_token_id", &SpecialIds::fim_prefix},
    {"tokenizer.ggml.fim_suf_token_id", &SpecialIds::fim_suffix},
    {"tokenizer.ggml.fim_mid_token_id", &SpecialIds::fim_middle},
    {"tokenizer.ggml.fim_pad_token_id", &SpecialIds::fim_padding},
    {"tokenizer.ggml.fim_rep_token_id", &SpecialIds::fim_repository},
    {"tokenizer.ggml.fim_sep_token_id", &SpecialIds::fim_file},
};

// Skips invalid IDs.
std::vector<int32_t> get_ends(const gguf::File& file, int64_t vocab) {
  constexpr std::string_view key = "tokenizer.ggml.eos_token_ids";
  const gguf::Value* value = find_array(file, key);
  if (!value) return {};
  const auto ids = value->as_ints();
  if (!ids)
    throw_error("{}: {}: expected an array of integers, found one of {}", file.path(), key,
                gguf::name_of(value->element_type()));
  std::vector<int32_t> ends;
  for (const int64_t id : *ids)
    if (id >= 0 && id < vocab) ends.push_back(static_cast<int32_t>(id));
  return ends;
}

std::optional<bool> get_flag(const gguf::File& file, std::string_view key) {
  if (!file.find(key)) return std::nullopt;
  return file.get_bool(key, false);
}

// No key states which special tokens take the white space after them; only Phi-3's are known to.
bool is_phi3(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
}

} // namespace

TokenizerData TokenizerData::from_file(const gguf::File& file) {
  if (!file.find("tokenizer.ggml.model"))
    throw_error("{}: contains no tokenizer (tokenizer.ggml.model is missing): give token ids instead of text, or use a "
                "file with a vocabulary",
                file.path());
  TokenizerData data;
  data.model = file.get_string("tokenizer.ggml.model");
  data.pre = file.get_string("tokenizer.ggml.pre", "");
  data.tokens = get_strings(file, "tokenizer.ggml.tokens");
  data.scores = get_scores(file);
  data.kinds = get_kinds(file);
  if ((data.model == "gpt2" || data.model == "gemma4") && !file.find("tokenizer.ggml.merges"))
    throw_error("{}: tokenizer.ggml.merges: missing, but required for a tokenizer of the model \"{}\"", file.path(),
                data.model);
  data.merges = get_strings(file, "tokenizer.ggml.merges");
  data.ends = get_ends(file, std::ssize(data.tokens));
  data.charsmap = get_charsmap(file);
  data.add_bos = get_flag(file, "tokenizer.ggml.add_bos_token");
  data.add_eos = get_flag(file, "tokenizer.ggml.add_eos_token");
  data.add_space_prefix = get_flag(file, "tokenizer.ggml.add_space_prefix");
  data.remove_extra_whitespaces = get_flag(file, "tokenizer.ggml.remove_extra_whitespaces");
  data.lowercase = file.get_bool("tokenizer.ggml.normalizer.lowercase", true);
  data.strip_accents = get_flag(file, "tokenizer.ggml.normalizer.strip_accents");
  data.special_takes_space = is_phi3(file.get_string("general.name", ""));
  for (const auto& [key, id] : kSpecialKeys) {
    const int64_t stored = file.get_int(key, -1);
    if (stored == -1 || stored == UINT32_MAX) continue;
    if (stored < 0 || stored >= std::ssize(data.tokens))
      data.warnings.push_back(
          fmt::format("{} is {}, but there are only {} tokens: ignored", key, stored, data.tokens.size()));
    else
      data.special.*id = static_cast<int32_t>(stored);
  }
  return data;
}

} // namespace ridge::text
