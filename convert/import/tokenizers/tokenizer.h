// A checkpoint's tokenizer, from tokenizer.json or tokenizer.model, as the tokenizer.* keys of a GGUF file.
#pragma once

#include "convert/import/json_file.h"
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

// A vocabulary as it will be written.
struct Vocabulary {
  std::string model; // "gpt2", "llama", "t5", "bert"
  std::string pre;   // family of pre-tokenizer, of "gpt2"
  std::vector<Token> tokens;
  std::vector<std::string> merges;        // of "gpt2"
  std::string charsmap;                   // of "t5"
  std::map<std::string, int64_t> special; // "bos" → id, by the names in GGUF keys
  std::vector<uint32_t> ends;             // tokens that end an answer
  int64_t left_out = 0;                   // added tokens without a row in the embedding table
  std::string first_left_out;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents; // of "bert"

  // Sets token `id`. Ids that are skipped become unused tokens. Throws Error if `id` is not below `limit`, the number
  // of rows of the embedding table.
  void set(int64_t id, Token token, int64_t limit, const std::string& where);
  // The same for a token that was added to the vocabulary: beyond the table's rows it is counted, and left out.
  void add(int64_t id, Token token, int64_t limit, const std::string& where);
  int64_t find(std::string_view text) const; // -1: no such token

 private:
  std::map<std::string, int64_t, std::less<>> ids_; // not hashed: names from hostile files could all collide
};

Vocabulary read_tokenizer_json(const Json& document, const std::string& where, int64_t limit);
// Parts of it: the vocabulary and the rules for texts of two kinds of models. Special tokens are not read.
Vocabulary read_word_piece(const Json& document, const Fields& model, const std::string& where, int64_t limit);
Vocabulary read_unigram(const Json& document, const Fields& model, const std::string& where, int64_t limit);
// `model`: the bytes of tokenizer.model, a SentencePiece ModelProto.
Vocabulary read_sentencepiece(std::string_view model, const std::string& where, int64_t limit);
// `lines`: of rwkv_vocab_v20230424.txt.
Vocabulary read_rwkv(std::string_view lines, const std::string& where, int64_t limit);

// The family of text/tokenizer/pretokenize.h that splits text as these patterns do, applied one after the other. Empty
// if there is none.
std::string find_family(const std::vector<std::string>& patterns, bool ignore_merges);

// Reads the tokenizer of the checkpoint and its settings, pads it to `vocab` tokens, and appends the keys. Without a
// tokenizer it appends no key and says so in `notes`.
void read_tokenizer(JsonFiles& files, int64_t vocab, gguf::Metadata& metadata, std::vector<std::string>& notes);

} // namespace ridge::convert::import
