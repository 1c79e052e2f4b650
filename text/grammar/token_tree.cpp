#include "text/grammar/token_tree.h"

#include <algorithm>
#include <tuple>

namespace ridge::text {

TokenTree::TokenTree(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::tuple(e.bytes, e.token); });
  std::vector<uint32_t> path;
  std::string_view previous;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const Entry& entry : entries) {
    const std::string_view bytes = entry.bytes;
    const auto [differs, _] = std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end());
    close(static_cast<size_t>(differs - bytes.begin()));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, static_cast<uint32_t>(order_.size()), static_cast<uint16_t>(depth), static_cast<uint8_t>(bytes[depth])});
    }
    order_.push_back(entry.token);
    max_depth_ = std::max(max_depth_, static_cast<uint32_t>(bytes.size()));
    previous = bytes;
  }
  close(0);
  nodes_.push_back({0, static_cast<uint32_t>(order_.size()), 0, 0});
}

} // namespace ridge::text
