// SentencePiece's compiled normalization rules (`tokenizer.ggml.precompiled_charsmap`): a double-array trie from byte
// strings to their replacements. Layout: u32 bytes of trie; the trie, u32 units; replacements, each ended by a zero
// byte. Unit (darts-clone): bits 0-7 label and bit 31 (set in units that hold a value), bit 8 "a value follows", bits
// 10-30 the offset to the children, times 256 where bit 9 is set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class Charsmap {
 public:
  Charsmap() = default; // no rules
  // Throws Error where the sizes do not fit.
  explicit Charsmap(std::string_view blob);

  struct Rule {
    size_t bytes = 0; // of text replaced; 0: no rule applies here
    std::string_view replacement;
  };
  // The rule for the longest prefix of `text` that has one. A link to outside the trie ends the search.
  Rule find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

} // namespace ridge::text
