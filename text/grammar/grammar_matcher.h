// Keeps a model's output within a grammar, token by token.
//
// All token pieces of a vocabulary form a trie, built once. A mask is one walk over the trie in step with the grammar's
// states: a byte that the grammar refuses skips the whole subtree. The walk is done on the cut set (grammar_states.h)
// and remembered, so that the expensive situations, such as "inside a string", where nearly all of 128k tokens are
// allowed, are walked once per grammar; only tokens that leave the cut set are followed for each new stack.
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

// The vocabulary as grammars see it. Shared by any number of matchers.
class TokenTable {
 public:
  struct Special {
    std::string text; // "<think>"
    int32_t token;
  };
  // pieces: the raw bytes of each token, which may be parts of UTF-8 characters; empty for tokens that stand for no
  // text, which a grammar then allows only by reference. eog: the tokens that end the output. special: the texts under
  // which a grammar may refer to control tokens. Throws an Error for ids outside the vocabulary.
  TokenTable(std::span<const std::string> pieces, std::span<const int32_t> eog, std::span<const Special> special = {});

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  std::string_view piece(int32_t token) const;
  std::span<const int32_t> eog() const { return eog_; }
  bool is_eog(int32_t token) const;
  // The special token of this text, or the ordinary one with exactly these bytes; -1 if there is none.
  int32_t find(std::string_view text) const;

  // The trie in preorder, root left out. Tokens of the node: order()[first_token .. the next node's first_token).
  struct Node {
    uint32_t end;         // where the node's subtree ends
    uint32_t first_token; // into order()
    uint16_t depth;       // 0 for a first byte
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

  std::string bytes_;          // all pieces in a row
  std::vector<uint32_t> ends_; // [vocab] of each piece in bytes_
  std::vector<int32_t> eog_;   // ascending
  std::vector<Special> special_;
  std::vector<int32_t> order_; // tokens with a piece, by their bytes
  std::vector<Node> nodes_;    // and one behind the last
  uint32_t max_depth_ = 0;
};

class GrammarMatcher : public core::TokenMask {
 public:
  // Both must outlive the matcher. Throws an Error if the grammar refers to a token that the vocabulary does not have.
  GrammarMatcher(const Grammar& grammar, const TokenTable& vocabulary);

  // Whether the token may come next; tokens that end the output may when can_end().
  bool allows(int32_t token) override;
  // logits: [at least vocab]; what lies beyond the vocabulary is never allowed.
  void apply(std::span<float> logits) override;
  // Throws an Error if the token is not allowed.
  void accept(int32_t token);
  // The same for text that came in other tokens than the grammar's.
  bool allows_text(std::string_view text);
  void accept_text(std::string_view text);
  // Whether the text so far is a complete output.
  bool can_end() const { return states_.can_end(current_); }
  void reset();

 private:
  using SetId = GrammarStates::SetId;
  using Bits = std::vector<uint64_t>; // one per token
  struct LocalMask {
    Bits allowed;                  // tokens that do not leave the cut set
    std::vector<uint32_t> leaving; // trie nodes at which the text may have left it
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
  std::vector<SetId> sets_by_depth_; // of the walk; [max_depth + 2]
  std::unordered_map<SetId, LocalMask> local_masks_;
  std::unordered_map<SetId, Bits> masks_;
};

} // namespace ridge::text
