// Byte-level BPE (GPT-2), and a character-level variant ("gemma4"): U+2581 for spaces, byte tokens for other bytes.
#pragma once

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/token_cache.h"
#include "text/tokenizer/token_merge.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_vocabulary.h"

#include <array>
#include <span>

namespace ridge::text {

class Bpe final : public TextModel {
 public:
  // `merges`: "left right", highest priority first; throws Error otherwise. Merges of unknown tokens never apply
  // (unusable_merges()).
  Bpe(const Vocabulary& vocabulary, std::span<const std::string_view> merges, const PretokenizerFamily& family,
      int32_t unknown_id);

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const override;
  std::string piece(std::string_view token_text) const override;
  size_t unusable_merges() const { return unusable_merges_; }

 private:
  struct Scratch {
    WordCache cache;
    Merger merger;
    std::vector<uint32_t> ends;
    std::string spelled;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t pair = kFree; // left ID << 32 | right ID
    Merge merge;
  };

  void read_merges(std::span<const std::string_view> merges);
  Merge find_merge(const Symbol& left, const Symbol& right) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  bool encode_whole(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  const PretokenizerFamily& family_;
  Pretokenizer pretokenizer_;
  std::array<int32_t, 256> byte_ids_;
  int32_t unknown_id_;
  std::vector<Slot> merges_; // open addressing, power of two, load ≤ 3/4
  size_t unusable_merges_ = 0;
  mutable Pool<Scratch> scratches_;
};

} // namespace ridge::text
