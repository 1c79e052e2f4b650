#include "text/grammar/class_tokens.h"

#include <algorithm>
#include <deque>
#include <string>

namespace ridge::text {

ClassTokens::ClassTokens(const TokenTree& vocabulary, size_t vocab,
                         std::span<const std::array<uint16_t, 256>> class_nodes, uint32_t start) {
  struct Place {
    uint32_t node = 0;       // of the class, inside a character
    uint32_t characters = 0; // complete ones
    uint32_t offset = 0;     // behind them
  };
  std::vector<Place> places(vocabulary.max_depth() + 2);
  std::string path(vocabulary.max_depth() + 1, '\0');
  std::vector<std::vector<int32_t>> whole(1);
  std::deque<std::string> texts;
  std::vector<std::vector<TokenTree::Entry>> rests(1);
  const auto add = [&](uint32_t characters, std::string rest, std::span<const int32_t> tokens) {
    if (tokens.empty()) return;
    if (rests.size() <= characters) rests.resize(characters + 1);
    const std::string_view text = texts.emplace_back(std::move(rest));
    for (const int32_t token : tokens) rests[characters].push_back({text, token});
  };
  const std::span<const TokenTree::Node> nodes = vocabulary.nodes();
  Place refused; // where the class ended, for the nodes before refused_end
  uint32_t refused_end = 0;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const TokenTree::Node& node = nodes[i];
    path[node.depth] = static_cast<char>(node.byte);
    if (i < refused_end) {
      add(refused.characters, path.substr(refused.offset, node.depth + 1u - refused.offset), vocabulary.tokens_at(i));
      continue;
    }
    const Place& at = places[node.depth];
    const uint16_t next = class_nodes[at.node != 0 ? at.node : start][node.byte];
    if (next == Grammar::kNoMatch) {
      if (node.depth == 0) {
        outside_.push_back(i);
        i = node.end - 1;
        continue;
      }
      refused = at;
      refused_end = node.end;
      add(at.characters, path.substr(at.offset, node.depth + 1u - at.offset), vocabulary.tokens_at(i));
    } else if (next == Grammar::kMatched) {
      const Place behind{0, at.characters + 1, node.depth + 1u};
      if (whole.size() <= behind.characters) whole.resize(behind.characters + 1);
      const auto tokens = vocabulary.tokens_at(i);
      whole[behind.characters].insert(whole[behind.characters].end(), tokens.begin(), tokens.end());
      places[node.depth + 1u] = behind;
    } else {
      add(at.characters, path.substr(at.offset, node.depth + 1u - at.offset), vocabulary.tokens_at(i));
      places[node.depth + 1u] = {next, at.characters, at.offset};
    }
  }
  const size_t most = std::max(whole.size(), rests.size());
  whole.resize(most);
  rests.resize(most);
  std::vector<TokenTree::Entry> all;
  for (size_t n = 0; n < most; ++n) {
    if (n == 0 || !whole[n].empty()) {
      TokenBits bits = n == 0 ? TokenBits((vocab + 63) / 64) : *whole_.back();
      for (const int32_t token : whole[n]) bits[token / 64] |= uint64_t{1} << (token % 64);
      bytes_ += bits.size() * sizeof(bits[0]);
      whole_.push_back(std::make_shared<const TokenBits>(std::move(bits)));
    } else {
      whole_.push_back(whole_.back());
    }
    all.insert(all.end(), rests[n].begin(), rests[n].end());
    behind_.emplace_back(std::move(rests[n]));
    bytes_ += 2 * behind_.back().nodes().size_bytes();
  }
  behind_any_ = TokenTree(std::move(all));
  bytes_ += 2 * behind_any_.nodes().size_bytes();
}

} // namespace ridge::text
