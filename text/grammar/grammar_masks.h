// The states of a grammar over a vocabulary, with the tokens that each allows. Matchers share them.
//
// A mask is a walk over the tree of tokens; a refused byte skips its subtree. Walks use cut sets (grammar_states.h):
// their results are kept, and only tokens that leave the cut set are followed per stack. Where a text is free but for a
// few characters, such as inside a string, most tokens need no walk (ClassTokens).
#pragma once

#include "text/grammar/grammar_states.h"
#include "text/grammar/token_table.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace ridge::text {

// Users must hold mutex().
class GrammarMasks {
 public:
  using SetId = GrammarStates::SetId;
  static constexpr size_t kMaxBytes = 8u << 20; // of masks, then they are made anew

  // Throws Error if the grammar refers to an unknown token.
  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> vocabulary);

  std::mutex& mutex() { return mutex_; }
  GrammarStates& states() { return states_; }
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const std::shared_ptr<const TokenTable>& vocabulary() const { return vocabulary_; }
  size_t bytes() const { return bytes_ + states_.bytes(); }
  // allowed: a bit per token
  void fill(SetId set, TokenBits& allowed);

 private:
  struct Leaving {
    const TokenTree* tree;
    uint32_t node;
  };
  // Tokens that stay in a cut set, and where text may leave it.
  struct LocalMask {
    std::shared_ptr<const TokenBits> bits; // may be null
    std::vector<int32_t> tokens;           // further ones
    std::vector<Leaving> leaving;
    std::shared_ptr<const ClassTokens> of_class; // owns trees of `leaving`
    size_t bytes() const;
  };

  const LocalMask& local_mask(SetId local);
  bool make_free_mask(SetId local, LocalMask& mask);
  void walk(const TokenTree& tree, uint32_t first_node, uint32_t end_node, SetId set, std::vector<int32_t>& allowed,
            std::vector<Leaving>* leaving);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTable> vocabulary_;
  std::mutex mutex_;
  GrammarStates states_;
  std::vector<SetId> sets_by_depth_; // [max_depth + 2]
  std::vector<int32_t> found_;
  std::unordered_map<SetId, LocalMask> local_masks_;
  std::unordered_map<SetId, TokenBits> costly_masks_; // that leave at many places
  size_t bytes_ = 0;
};

// Makes the states at the first use. Thread-safe.
class SharedGrammar {
 public:
  explicit SharedGrammar(Grammar grammar) : grammar_(std::make_shared<const Grammar>(std::move(grammar))) {}

  const Grammar& grammar() const { return *grammar_; }
  // The same each time, until they are full.
  std::shared_ptr<GrammarMasks> masks(const std::shared_ptr<const TokenTable>& vocabulary) const;
  size_t bytes() const;

 private:
  const std::shared_ptr<const Grammar> grammar_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<GrammarMasks> masks_;
};

} // namespace ridge::text
