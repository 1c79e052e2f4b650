// A tokenizer's token list.
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
  unknown = 2,
  control = 3,      // <s>, <|eot_id|>; only where special tokens are parsed
  user_defined = 4, // matched before the model runs
  unused = 5,
  byte = 6,
};

class Vocabulary {
 public:
  // One kind and score per token.
  Vocabulary(std::span<const std::string_view> texts, std::vector<TokenKind> kinds, std::vector<float> scores);

  int32_t size() const { return static_cast<int32_t>(kinds_.size()); }
  std::string_view text(int32_t id) const {
    return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  TokenKind kind(int32_t id) const { return kinds_[id]; }
  void set_kind(int32_t id, TokenKind kind) { kinds_[id] = kind; }
  float score(int32_t id) const { return scores_[id]; }

  // Lowest ID, or -1. Empty texts are never found.
  int32_t find(std::string_view text) const;

  // "<0x00>" … "<0xFF>"; -1: missing.
  std::array<int32_t, 256> byte_tokens() const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id = -1;
  };

  std::string bytes_;
  std::vector<uint32_t> offsets_;
  std::vector<TokenKind> kinds_;
  std::vector<float> scores_;
  std::vector<Slot> slots_; // open addressing, power of two, load ≤ 3/4
};

// Value of "<0x0A>", or -1.
int byte_of(std::string_view text);

} // namespace ridge::text
