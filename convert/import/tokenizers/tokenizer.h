// Reads tokenizer.json or tokenizer.model and writes the tokenizer.* keys of GGUF.
#pragma once

#include "convert/import/config/json_file.h"
#include "gguf/metadata.h"
#include "text/tokenizer/token_vocabulary.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

struct Token {
  std::string text;
  float score = 0;
  text::TokenKind kind = text::TokenKind::normal;
};

struct Vocabulary {
  std::string model; // "gpt2", "llama", "t5", "bert"
  std::string pre;
  std::vector<Token> tokens;
  std::vector<std::string> merges;
  std::string charsmap;
  std::map<std::string, int64_t> special; // by GGUF names: "bos" → ID
  std::vector<uint32_t> ends;
  int64_t left_out = 0; // tokens beyond the embedding table
  std::string first_left_out;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;

  // Skipped IDs become unused tokens. Throws Error unless id < `limit`, the rows of the embedding table.
  void set(int64_t id, Token token, int64_t limit, const std::string& where);
  // For added tokens: beyond the table, counts and skips them.
  void add(int64_t id, Token token, int64_t limit, const std::string& where);
  int64_t find(std::string_view text) const;

 private:
  std::map<std::string, int64_t, std::less<>> ids_; // no hash map: hostile names collide
};

Vocabulary read_tokenizer_json(const Json& document, const std::string& where, int64_t limit);
Vocabulary read_word_piece(const Json& document, const Fields& model, const std::string& where, int64_t limit);
Vocabulary read_unigram(const Json& document, const Fields& model, const std::string& where, int64_t limit);
Vocabulary read_sentencepiece(std::string_view model, const std::string& where, int64_t limit);
// rwkv_vocab_v20230424.txt.
Vocabulary read_rwkv(std::string_view lines, const std::string& where, int64_t limit);

// The family (text/tokenizer/pretokenize.h) equivalent to these patterns in sequence, or empty.
std::string find_family(const std::vector<std::string>& patterns, bool ignore_merges);

// Pads to `vocab` tokens and appends the keys. Without a tokenizer, adds a note only.
void read_tokenizer(JsonFiles& files, int64_t vocab, gguf::Metadata& metadata, std::vector<std::string>& notes);

} // namespace ridge::convert::import
