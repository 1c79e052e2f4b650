// SentencePiece's normalization rules (`tokenizer.ggml.precompiled_charsmap`): u32 trie bytes, trie (u32 units),
// zero-terminated replacements. Unit (darts-clone): bits 0-7 label, bit 31 set in value units, bit 8 "value follows",
// bits 10-30 offset to children, times 256 if bit 9 is set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class Charsmap {
 public:
  Charsmap() = default;
  // Throws Error for inconsistent sizes.
  explicit Charsmap(std::string_view blob);

  struct Rule {
    size_t bytes = 0; // replaced bytes; 0: none
    std::string_view replacement;
  };
  // The rule for the longest prefix of `text`. A link out of the trie ends the search.
  Rule find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

} // namespace ridge::text
