#include "convert/import/tokenizers/tokenizer.h"

#include "convert/import/config/generation.h"
#include "core/error.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <unordered_map>

namespace ridge::convert::import {
namespace {

using text::TokenKind;

// "<s>" or {"content": "<s>", …}.
std::optional<std::string> token_text(const Fields& settings, const std::string& key) {
  const Json* value = settings.find(key);
  if (!value) return std::nullopt;
  return value->is_object() ? Fields(*value, settings.where(key)).find_string("content") : settings.find_string(key);
}

// 2, or the first of [2, 5].
std::optional<int64_t> token_id(const Fields& settings, const std::string& key) {
  const Json* value = settings.find(key);
  if (value && value->is_array()) value = value->empty() ? nullptr : &value->front();
  if (!value || !value->is_number_unsigned() || value->get<uint64_t>() > INT32_MAX) return std::nullopt;
  return value->get<int64_t>();
}

struct Role {
  const char *name, *key, *gguf; // in settings: key + "_token", key + "_token_id"
};
constexpr Role kRoles[] = {
    {"bos", "bos", "bos"},
    {"eos", "eos", "eos"},
    {"unknown", "unk", "unknown"},
    {"padding", "pad", "padding"},
    {"separator", "sep", "seperator"}, // GGUF's spelling
    {"mask", "mask", "mask"},
};

// Additions of tokenizer_config.json or added_tokens.json to a tokenizer.model.
void add_tokens(JsonFiles& files, int64_t limit, Vocabulary& vocabulary) {
  const Json& config = files.get("tokenizer_config.json");
  std::vector<std::pair<int64_t, Token>> added;
  if (config.is_object() && config.contains("added_tokens_decoder")) {
    const std::string where = files.path("tokenizer_config.json") + ": added_tokens_decoder";
    const Json& decoder = config["added_tokens_decoder"];
    if (!decoder.is_object()) throw_error("{}: expected an object", where);
    for (const auto& [key, value] : decoder.items()) {
      const Fields fields(value, where);
      if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos)
        throw_error("{}: expected ids as keys", where);
      const bool special = fields.get_bool("special", false);
      added.push_back(
          {std::stoll(key), {fields.get_string("content"), 0, special ? TokenKind::control : TokenKind::user_defined}});
    }
  } else if (const Json& names = files.get("added_tokens.json"); names.is_object()) {
    for (const auto& [text, id] : names.items()) {
      if (!id.is_number_unsigned()) throw_error("{}: expected ids of at least 0", files.path("added_tokens.json"));
      added.push_back({id.get<int64_t>(), {text, 0, TokenKind::user_defined}});
    }
  }
  std::ranges::sort(added, {}, &std::pair<int64_t, Token>::first);
  for (auto& [id, token] : added) {
    if (id < std::ssize(vocabulary.tokens) && vocabulary.tokens[id].kind == TokenKind::unknown)
      token.kind = TokenKind::unknown;
    vocabulary.add(id, std::move(token), limit, files.path("tokenizer_config.json") + ": added tokens");
  }
}

void write_chat_template(JsonFiles& files, gguf::Metadata& metadata) {
  const Json& config = files.get("tokenizer_config.json");
  if (const auto file = read_text_file(files.folder(), "chat_template.jinja")) {
    metadata.set("tokenizer.chat_template", *file);
    return;
  }
  Json found = config.is_object() && config.contains("chat_template") ? config["chat_template"] : Json();
  if (found.is_null())
    if (const Json& file = files.get("chat_template.json"); file.is_object())
      found = file.value("chat_template", Json());
  if (found.is_string()) metadata.set("tokenizer.chat_template", found.get<std::string>());
  if (!found.is_array()) return;
  std::vector<std::string> names;
  for (const Json& entry : found) {
    const Fields fields(entry, files.path("tokenizer_config.json") + ": chat_template");
    const std::string name = fields.get_string("name");
    const bool plain = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (name == "default") {
      metadata.set("tokenizer.chat_template", fields.get_string("template"));
    } else if (plain && !name.empty()) {
      metadata.set("tokenizer.chat_template." + name, fields.get_string("template"));
      names.push_back(name);
    }
  }
  if (!names.empty()) metadata.set("tokenizer.chat_templates", names);
}

void write_vocabulary(const Vocabulary& vocabulary, gguf::Metadata& metadata) {
  std::vector<std::string_view> texts;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const Token& token : vocabulary.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    kinds.push_back(static_cast<int32_t>(token.kind));
  }
  const std::string prefix = "tokenizer.ggml.";
  metadata.set(prefix + "model", vocabulary.model);
  if (!vocabulary.pre.empty()) metadata.set(prefix + "pre", vocabulary.pre);
  metadata.set(prefix + "tokens", texts);
  if (vocabulary.model != "gpt2" && vocabulary.model != "bert") metadata.set(prefix + "scores", scores);
  metadata.set(prefix + "token_type", kinds);
  if (vocabulary.model == "gpt2") metadata.set(prefix + "merges", vocabulary.merges);
  if (!vocabulary.charsmap.empty())
    metadata.set(prefix + "precompiled_charsmap",
                 std::vector<uint8_t>(vocabulary.charsmap.begin(), vocabulary.charsmap.end()));
  for (const Role& role : kRoles) {
    const auto at = vocabulary.special.find(role.name);
    if (at != vocabulary.special.end() && at->second >= 0)
      metadata.set(prefix + role.gguf + "_token_id", static_cast<uint32_t>(at->second));
  }
  if (vocabulary.ends.size() > 1) metadata.set(prefix + "eos_token_ids", vocabulary.ends);
  const auto flag = [&](const char* key, std::optional<bool> value) {
    if (value) metadata.set(prefix + key, *value);
  };
  flag("add_bos_token", vocabulary.add_bos);
  flag("add_eos_token", vocabulary.add_eos);
  flag("add_space_prefix", vocabulary.add_space_prefix);
  flag("remove_extra_whitespaces", vocabulary.remove_extra_whitespaces);
  flag("normalizer.lowercase", vocabulary.lowercase);
  flag("normalizer.strip_accents", vocabulary.strip_accents);
}

void read_ends(JsonFiles& files, Vocabulary& vocabulary) {
  std::vector<int64_t> ids = end_tokens(files);
  if (const auto eos = vocabulary.special.find("eos"); eos != vocabulary.special.end()) {
    std::erase(ids, eos->second);
    ids.insert(ids.begin(), eos->second);
  }
  std::erase_if(ids, [&](int64_t id) { return id >= std::ssize(vocabulary.tokens); });
  for (const int64_t id : ids) {
    if (std::ranges::find(vocabulary.ends, id) != vocabulary.ends.end()) continue;
    vocabulary.ends.push_back(static_cast<uint32_t>(id));
    Token& token = vocabulary.tokens[id];
    if (token.kind == TokenKind::user_defined) token.kind = TokenKind::control;
  }
}

// Priority: tokenizer_config.json, generation_config.json, config.json.
void read_settings(JsonFiles& files, Vocabulary& vocabulary) {
  const Json& config = files.get("tokenizer_config.json");
  static const Json kNone = Json::object();
  const Fields settings(config.is_object() ? config : kNone, files.path("tokenizer_config.json"));
  if (const auto add = settings.find_bool("add_bos_token")) vocabulary.add_bos = add;
  if (const auto add = settings.find_bool("add_eos_token")) vocabulary.add_eos = add;
  for (const Role& role : kRoles) {
    const std::string key = role.key;
    int64_t id = -1;
    if (const auto text = token_text(settings, key + "_token")) id = vocabulary.find(*text);
    if (id < 0 && !vocabulary.special.contains(role.name))
      for (const char* name : {"generation_config.json", "config.json"})
        if (const Json& file = files.get(name); id < 0 && file.is_object())
          id = token_id(Fields(file, name), key + "_token_id").value_or(-1);
    if (id >= 0) vocabulary.special[role.name] = id;
  }
  std::erase_if(vocabulary.special,
                [&](const auto& role) { return role.second < 0 || role.second >= std::ssize(vocabulary.tokens); });
  read_ends(files, vocabulary);
  for (const char* role : {"bos", "eos", "padding"})
    if (const auto at = vocabulary.special.find(role); at != vocabulary.special.end())
      if (Token& token = vocabulary.tokens[at->second]; token.kind == TokenKind::user_defined)
        token.kind = TokenKind::control;
}

} // namespace

void Vocabulary::set(int64_t id, Token token, int64_t limit, const std::string& where) {
  if (id < 0 || id >= limit)
    throw_error("{}: token {} has id {}, but the embedding table has {} rows", where, core::printable(token.text), id,
                limit);
  while (std::ssize(tokens) < id) tokens.push_back({fmt::format("[PAD{}]", tokens.size()), 0, TokenKind::unused});
  if (id == std::ssize(tokens)) tokens.emplace_back();
  ids_.erase(tokens[id].text);
  ids_.insert_or_assign(token.text, id);
  tokens[id] = std::move(token);
}

void Vocabulary::add(int64_t id, Token token, int64_t limit, const std::string& where) {
  if (id < limit) return set(id, std::move(token), limit, where);
  if (left_out++ == 0) first_left_out = std::move(token.text);
}

int64_t Vocabulary::find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? -1 : at->second;
}

void read_tokenizer(JsonFiles& files, int64_t vocab, gguf::Metadata& metadata, std::vector<std::string>& notes) {
  const std::string& folder = files.folder();
  const Json document = read_json_file(folder, "tokenizer.json"); // large: freed early
  auto sentencepiece = read_text_file(folder, "tokenizer.model");
  if (!sentencepiece && !document.is_object()) sentencepiece = read_text_file(folder, "spiece.model");
  // tokenizer.model has priority: it has the true scores.
  const bool byte_level =
      document.is_object() && document.value("pre_tokenizer", Json()).dump().find("\"ByteLevel\"") != std::string::npos;
  constexpr const char* kRwkvVocabulary = "rwkv_vocab_v20230424.txt";
  Vocabulary vocabulary;
  if (sentencepiece && !byte_level) {
    vocabulary = read_sentencepiece(*sentencepiece, folder + "/tokenizer.model", vocab);
    add_tokens(files, vocab, vocabulary);
  } else if (document.is_object()) {
    vocabulary = read_tokenizer_json(document, folder + "/tokenizer.json", vocab);
  } else if (const auto rwkv = read_text_file(folder, kRwkvVocabulary)) {
    vocabulary = read_rwkv(*rwkv, fmt::format("{}/{}", folder, kRwkvVocabulary), vocab);
  } else {
    notes.push_back("no tokenizer.json and no tokenizer.model: the file will take token ids only, no text");
    return;
  }
  if (vocabulary.left_out > 0)
    notes.push_back(fmt::format("{} added tokens, starting with {}, are left out: the embedding table has {} rows",
                                vocabulary.left_out, core::printable(vocabulary.first_left_out), vocab));
  read_settings(files, vocabulary);
  while (std::ssize(vocabulary.tokens) < vocab)
    vocabulary.set(std::ssize(vocabulary.tokens),
                   {fmt::format("[PAD{}]", vocabulary.tokens.size()), 0, TokenKind::unused}, vocab, folder);
  write_vocabulary(vocabulary, metadata);
  write_chat_template(files, metadata);
}

} // namespace ridge::convert::import
