// The tokenizers that take the longest token at each place: RWKV's ("rwkv" in GGUF), over the bytes of the whole text,
// and BERT's WordPiece ("bert"), inside normalized words.
#pragma once

#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_trie.h"
#include "text/tokenizer/token_vocabulary.h"

namespace ridge::text {

// Files store the tokens with escapes: "\n", "\xff", "\\".
class Rwkv final : public TextModel {
 public:
  Rwkv(const Vocabulary& vocabulary, int32_t unknown_id);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override;

 private:
  const int32_t unknown_id_; // of a byte that begins no token; -1: it is left out
  TokenTrie tokens_;
};

struct WordPieceOptions {
  bool lowercase = true, strip_accents = true;
  int32_t unknown_id = -1;
};

// Words are runs between white space; a punctuation mark or a Chinese character is a word of its own. Files mark the
// tokens that begin a word with U+2581. A word that tokens cannot spell is one unknown token.
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
