// The token list of a tokenizer: what the file stores of each token, and the way back from text to id.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

enum class TokenKind : uint8_t { // numbered as in tokenizer.ggml.token_type
  normal = 1,
  unknown = 2,      // stands for what the vocabulary cannot spell
  control = 3,      // structure (<s>, <|eot_id|>): in a text only where special tokens are parsed
  user_defined = 4, // matched in every text before the model splits the rest
  unused = 5,
  byte = 6, // "<0x0A>": one byte of a character that has no token
};

class Vocabulary {
 public:
  // Copies the texts. Kinds and scores: one per token.
  Vocabulary(std::span<const std::string_view> texts, std::vector<TokenKind> kinds, std::vector<float> scores);

  int32_t size() const { return static_cast<int32_t>(kinds_.size()); }
  std::string_view text(int32_t id) const { // as stored in the file
    return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  TokenKind kind(int32_t id) const { return kinds_[id]; }
  void set_kind(int32_t id, TokenKind kind) { kinds_[id] = kind; }
  float score(int32_t id) const { return scores_[id]; } // 0 where the file has none

  // The id of a stored text; of several, the lowest. -1: none. Empty texts are never found.
  int32_t find(std::string_view text) const;

  // Ids of "<0x00>" … "<0xFF>", -1 where there is none.
  std::array<int32_t, 256> byte_tokens() const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id = -1;
  };

  std::string bytes_;             // all texts, one after the other
  std::vector<uint32_t> offsets_; // size() + 1
  std::vector<TokenKind> kinds_;
  std::vector<float> scores_;
  std::vector<Slot> slots_; // open addressing, a power of two, at most 3/4 full
};

// The byte that "<0x0A>" means, or -1.
int byte_of(std::string_view text);

} // namespace ridge::text
