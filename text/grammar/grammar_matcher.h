// Constrains output to a grammar, token by token.
//
// A mask is a walk over the trie of token pieces; a refused byte skips its subtree. Walks use cut sets
// (grammar_states.h) and are cached: "inside a string", which allows most of 128k tokens, is walked once per grammar.
// Only tokens that leave the cut set are followed per stack.
#pragma once

#include "core/sampler.h"
#include "text/grammar/grammar_states.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ridge::text {

// The vocabulary as a trie. Matchers may share it.
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

  // Preorder without root. A node's tokens: order()[first_token .. next node's first_token).
  struct Node {
    uint32_t end;
    uint32_t first_token;
    uint16_t depth;
    uint8_t byte;
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const int32_t> tokens_at(uint32_t node) const {
    const uint32_t first = nodes_[node].first_token;
    return {order_.data() + first, nodes_[node + 1].first_token - first};
  }
  uint32_t max_depth() const { return max_depth_; }

 private:
  void build_trie();

  std::string bytes_;
  std::vector<uint32_t> ends_; // [vocab], ends of pieces in bytes_
  std::vector<int32_t> eog_;
  std::vector<Special> special_;
  std::vector<int32_t> order_; // tokens with a piece, sorted by bytes
  std::vector<Node> nodes_;
  uint32_t max_depth_ = 0;
};

class GrammarMatcher : public core::TokenMask {
 public:
  // Both must outlive the matcher. Throws Error if the grammar refers to an unknown token.
  GrammarMatcher(const Grammar& grammar, const TokenTable& vocabulary);

  // End tokens are allowed if can_end().
  bool allows(int32_t token) override;
  // logits: [≥ vocab]. Masks everything beyond the vocabulary.
  void apply(std::span<float> logits) override;
  void accept(int32_t token);
  // For text with any tokenization.
  bool allows_text(std::string_view text);
  void accept_text(std::string_view text);
  bool can_end() const { return states_.can_end(current_); }
  void reset();

 private:
  using SetId = GrammarStates::SetId;
  using Bits = std::vector<uint64_t>;
  struct LocalMask {
    Bits allowed;                  // tokens that stay in the cut set
    std::vector<uint32_t> leaving; // trie nodes at which text may leave it
  };

  SetId after(int32_t token);
  SetId after_text(std::string_view text);
  const Bits& mask();
  const LocalMask& local_mask(SetId local);
  void walk(uint32_t first_node, uint32_t end_node, SetId set, Bits& allowed, std::vector<uint32_t>* leaving);
  void set_bits(uint32_t node, Bits& allowed) const;
  void begin();

  const TokenTable& vocabulary_;
  GrammarStates states_;
  SetId current_;
  std::vector<SetId> sets_by_depth_; // [max_depth + 2]
  std::unordered_map<SetId, LocalMask> local_masks_;
  std::unordered_map<SetId, Bits> masks_;
};

} // namespace ridge::text
