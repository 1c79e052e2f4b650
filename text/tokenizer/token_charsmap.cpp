#include "text/tokenizer/token_charsmap.h"

#include "core/error.h"

#include <cstring>

namespace ridge::text {

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  const size_t body = blob.size() - std::min(blob.size(), sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > body || blob.back() != '\0')
    throw_error("tokenizer.ggml.precompiled_charsmap: no trie with replacements in {} bytes", blob.size());
  units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data() + sizeof trie_bytes, trie_bytes);
  replacements_ = blob.substr(sizeof trie_bytes + trie_bytes);
}

Charsmap::Rule Charsmap::find(std::string_view text) const {
  Rule best;
  if (units_.empty()) return best;
  const auto children = [](uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); };
  size_t node = children(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || (units_[node] & (1u << 31 | 0xFF)) != byte) break;
    const uint32_t unit = units_[node];
    node ^= children(unit);
    if ((unit & 1u << 8) == 0) continue;
    if (node >= units_.size()) break;
    const size_t start = units_[node] & ~(1u << 31);
    if (start >= replacements_.size()) break;
    best = {i + 1, replacements_.c_str() + start};
  }
  return best;
}

} // namespace ridge::text
