// Splits text into words before BPE, by the regular expressions of the family in `tokenizer.ggml.pre`.
#pragma once

#include "text/tokenizer/token_cache.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct PretokenizerFamily {
  std::string_view names; // values of tokenizer.ggml.pre, space-separated
  // Each pattern splits the pieces of the previous one into matches and gaps.
  std::array<const char*, 6> patterns;
  bool ignore_merges = false; // whole words that are tokens skip merges
  bool add_bos = false;       // if tokenizer.ggml.add_bos_token is missing
  bool needs_bos = false;     // overrides a wrong add_bos_token of published files
  bool byte_level = true;     // GPT-2's byte spelling; else characters, U+2581 for spaces, "<0x0A>" for the rest

  bool has_name(std::string_view name) const;
};

std::span<const PretokenizerFamily> pretokenizer_families();        // default first
const PretokenizerFamily* find_pretokenizer(std::string_view name); // nullptr: unknown

class Pretokenizer {
 public:
  explicit Pretokenizer(const PretokenizerFamily& family);
  // For untrusted patterns. Throws Error if invalid; split() throws Error after `match_limit` steps.
  Pretokenizer(std::span<const std::string> patterns, uint32_t match_limit);
  ~Pretokenizer();

  // Appends the end offset of each word; the last is text.size(). Invalid UTF-8 bytes become separate words. Text: at
  // most 2 GiB. Throws Error if the regex engine runs out of memory.
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  class Pattern;
  struct Matcher;
  void split_valid(std::string_view text, uint32_t base, Matcher& matcher, std::vector<uint32_t>& ends) const;

  std::vector<std::unique_ptr<Pattern>> patterns_;
  uint32_t match_limit_ = UINT32_MAX;
  mutable Pool<Matcher> matchers_;
};

} // namespace ridge::text
