// Tokens as a tree of their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ridge::text {

class TokenTree {
 public:
  struct Entry {
    std::string_view bytes; // not empty; read by the constructor only
    int32_t token;
  };
  TokenTree() : TokenTree(std::vector<Entry>()) {}
  explicit TokenTree(std::vector<Entry> entries);

  // Preorder without root. A node's tokens: order()[first_token .. next node's first_token).
  struct Node {
    uint32_t end; // of its subtree
    uint32_t first_token;
    uint16_t depth;
    uint8_t byte;
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const int32_t> tokens_at(uint32_t node) const { return tokens_between(node, node + 1); }
  std::span<const int32_t> order() const { return order_; } // by bytes, then by ID
  uint32_t max_depth() const { return max_depth_; }

 private:
  std::span<const int32_t> tokens_between(uint32_t node, uint32_t end) const {
    const uint32_t first = nodes_[node].first_token;
    return {order_.data() + first, nodes_[end].first_token - first};
  }

  std::vector<int32_t> order_;
  std::vector<Node> nodes_; // and one behind the last
  uint32_t max_depth_ = 0;
};

} // namespace ridge::text
