// Longest-match tokenizers: RWKV ("rwkv") over bytes, WordPiece ("bert") in normalized words.
#pragma once

#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_trie.h"
#include "text/tokenizer/token_vocabulary.h"

namespace ridge::text {

// Tokens have escapes: "\n", "\xff", "\\".
class Rwkv final : public TextModel {
 public:
  Rwkv(const Vocabulary& vocabulary, int32_t unknown_id);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override;

 private:
  const int32_t unknown_id_; // for bytes that begin no token; -1: they are dropped
  TokenTrie tokens_;
};

struct WordPieceOptions {
  bool lowercase = true, strip_accents = true;
  int32_t unknown_id = -1;
};

// Punctuation and Chinese characters are words. U+2581 marks word starts. A word that tokens cannot spell is one
// unknown token.
class WordPiece final : public TextModel {
 public:
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override { return replaced(token_text, kSpaceMark, " "); }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  const WordPieceOptions options_;
  TokenTrie tokens_;
};

} // namespace ridge::text
