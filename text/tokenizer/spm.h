// SentencePiece BPE ("llama"), without a merge list: the neighbours that form the token with the highest score join
// first.
#pragma once

#include "text/tokenizer/token_cache.h"
#include "text/tokenizer/token_merge.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_vocabulary.h"

namespace ridge::text {

class Spm final : public TextModel {
 public:
  Spm(const Vocabulary& vocabulary, bool add_space_prefix, int32_t unknown_id);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override { return replaced(token_text, kSpaceMark, " "); }

 private:
  struct Scratch {
    WordCache cache;
    Merger merger;
  };

  int32_t find_piece(std::string_view text) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  const bool add_space_prefix_;
  const int32_t unknown_id_;
  const std::array<int32_t, 256> byte_ids_;
  bool merges_within_words_; // no token has an inner space: words merge separately
  size_t longest_piece_bytes_ = 0;
  mutable Pool<Scratch> scratches_;
};

} // namespace ridge::text
