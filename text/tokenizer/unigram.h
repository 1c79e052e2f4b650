// SentencePiece Unigram ("t5"): Viterbi for the best sum of scores (log probabilities); and PLaMo 2 ("plamo2"), from
// the end of the text with integers.
#pragma once

#include "text/tokenizer/token_charsmap.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_trie.h"
#include "text/tokenizer/token_vocabulary.h"

#include <array>

namespace ridge::text {

struct UnigramOptions {
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false; // collapses and trims spaces
  std::string_view charsmap;             // normalization rules, may be empty
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

// Scores are rounded ten-thousandths. A character without a token costs 1,000 and becomes byte tokens. Ties: the
// longest first token wins. Spaces are ordinary characters.
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
