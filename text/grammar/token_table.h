// A vocabulary as grammars use it.
#pragma once

#include "text/grammar/class_tokens.h"
#include "text/grammar/token_tree.h"
#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::text {

// Thread-safe. Grammars may share it.
class TokenTable {
 public:
  struct Special {
    std::string text;
    int32_t token;
  };
  // pieces: bytes per token, possibly partial UTF-8; empty: only by reference. eog: end tokens. special: names of
  // control tokens. Throws Error for invalid IDs.
  TokenTable(std::span<const std::string> pieces, std::span<const int32_t> eog, std::span<const Special> special = {});

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  std::string_view piece(int32_t token) const;
  std::span<const int32_t> eog() const { return eog_; }
  bool is_eog(int32_t token) const;
  // The special token with this text, else the ordinary token with these bytes, or -1.
  int32_t find(std::string_view text) const;
  // Tokens with a piece, without end tokens.
  const TokenTree& tree() const { return tree_; }
  // Made for the first grammar that has the class.
  std::shared_ptr<const ClassTokens> of_class(const Grammar& grammar, uint32_t char_class) const;

 private:
  static constexpr size_t kMaxClassBytes = 64u << 20; // drops the least recently used

  std::string bytes_;
  std::vector<uint32_t> ends_; // [vocab], ends of pieces in bytes_
  std::vector<int32_t> eog_;
  std::vector<Special> special_;
  TokenTree tree_;

  using Class = std::pair<std::vector<CodePointRange>, std::shared_ptr<const ClassTokens>>;
  mutable std::mutex mutex_;
  mutable std::list<Class> classes_;
  mutable size_t class_bytes_ = 0;
};

// Takes some 100 ms for 128 k tokens, so a model's constraints share it.
std::shared_ptr<const TokenTable> make_token_table(const Tokenizer& tokenizer);

} // namespace ridge::text
