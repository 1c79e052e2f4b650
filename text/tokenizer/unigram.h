// SentencePiece Unigram ("t5" in GGUF): of all ways to write the text as tokens, the one with the highest sum of scores
// (log probabilities), found by Viterbi over the characters. And PLaMo 2's tokenizer ("plamo2"), which does the same
// from the text's end, with whole numbers.
#pragma once

#include "text/tokenizer/token_charsmap.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_trie.h"
#include "text/tokenizer/token_vocabulary.h"

#include <array>

namespace ridge::text {

struct UnigramOptions {
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false; // runs of spaces become one, none stays at the ends
  std::string_view charsmap;             // compiled normalization rules, may be empty
  int32_t unknown_id = -1;
};

class Unigram final : public TextModel {
 public:
  Unigram(const Vocabulary& vocabulary, const UnigramOptions& options);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override { return replaced(token_text, kSpaceMark, " "); }

 private:
  std::string normalized(std::string_view text) const;
  void append_unknown(std::string_view characters, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  const bool add_space_prefix_, remove_extra_whitespaces_;
  const int32_t unknown_id_;
  const Charsmap charsmap_;
  const std::array<int32_t, 256> byte_ids_;
  TokenTrie pieces_;
  double unknown_score_;
};

// Scores are ten-thousandths, rounded. A character without a token costs 1,000 and is written as its bytes. Where ways
// cost the same, the one with the longest first token counts. Spaces are characters like others.
class Plamo final : public TextModel {
 public:
  explicit Plamo(const Vocabulary& vocabulary);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override { return std::string(token_text); }

 private:
  const Vocabulary& vocabulary_;
  const std::array<int32_t, 256> byte_ids_;
  TokenTrie pieces_;
};

} // namespace ridge::text
