// A vocabulary's tokens as runs of characters of one class, for texts that are free but for a few characters.
#pragma once

#include "text/grammar/grammar.h"
#include "text/grammar/token_tree.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::text {

using TokenBits = std::vector<uint64_t>; // a bit per token

class ClassTokens {
 public:
  // class_nodes, start: Grammar's automaton of the class. `vocabulary` must outlive this.
  ClassTokens(const TokenTree& vocabulary, size_t vocab, std::span<const std::array<uint16_t, 256>> class_nodes,
              uint32_t start);

  // Tokens of at most `characters` characters of the class and nothing else.
  const std::shared_ptr<const TokenBits>& of_at_most(size_t characters) const {
    return whole_[std::min(characters, most())];
  }
  size_t most() const { return whole_.size() - 1; } // characters of a token

  // Other tokens by the bytes behind their first characters of the class: `number` such characters, or any number. Left
  // out are tokens that begin with a byte outside of the class; outside() has their nodes of the vocabulary.
  const TokenTree& behind(size_t number) const { return behind_[number]; }
  const TokenTree& behind_any() const { return behind_any_; }
  std::span<const uint32_t> outside() const { return outside_; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<std::shared_ptr<const TokenBits>> whole_; // [most() + 1]
  std::vector<TokenTree> behind_;                       // [most() + 1]
  TokenTree behind_any_;
  std::vector<uint32_t> outside_;
  size_t bytes_ = 0;
};

} // namespace ridge::text
