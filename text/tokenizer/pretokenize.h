// Byte-level BPE cuts a text into words before it merges inside them. How to cut is a property of the model family,
// given by regular expressions; `tokenizer.ggml.pre` names the family. One row of pretokenize_families.cpp is one
// family.
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
  std::string_view names; // values of tokenizer.ggml.pre, space-separated; the first is the usual one
  // Applied one after the other: each cuts the pieces that the one before left, into its matches and what lies between.
  std::array<const char*, 6> patterns;
  bool ignore_merges = false; // a word that is a token is taken whole, whatever the merges say
  bool add_bos = false;       // where the file has no tokenizer.ggml.add_bos_token
  bool needs_bos = false;     // even where tokenizer.ggml.add_bos_token says false: files were written so by mistake
  bool byte_level = true; // bytes are spelled as GPT-2 does; else characters, U+2581 for a space, "<0x0A>" for the rest

  bool has_name(std::string_view name) const;
};

std::span<const PretokenizerFamily> pretokenizer_families();        // the first is the default
const PretokenizerFamily* find_pretokenizer(std::string_view name); // nullptr: unknown

class Pretokenizer {
 public:
  explicit Pretokenizer(const PretokenizerFamily& family);
  // For patterns from an untrusted file. Throws Error for an invalid pattern; split() throws Error where matching takes
  // more than `match_limit` steps.
  Pretokenizer(std::span<const std::string> patterns, uint32_t match_limit);
  ~Pretokenizer();

  // Appends the end offset of every word, in order: the last is text.size(). Bytes that are not UTF-8 become words of
  // their own. Text of at most 2 GiB. Throws Error where the regex engine gives up (out of memory).
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
