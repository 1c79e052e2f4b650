#include "text/tokenizer/token_vocabulary.h"

#include "core/error.h"
#include "text/tokenizer/token_hash.h"

#include <bit>
#include <cctype>
#include <charconv>

namespace ridge::text {

Vocabulary::Vocabulary(std::span<const std::string_view> texts, std::vector<TokenKind> kinds, std::vector<float> scores)
    : kinds_(std::move(kinds)), scores_(std::move(scores)), slots_(std::bit_ceil(texts.size() * 4 / 3 + 1)) {
  size_t total = 0;
  for (const std::string_view text : texts) total += text.size();
  if (total > UINT32_MAX || texts.size() > INT32_MAX)
    throw_error("tokenizer.ggml.tokens: too large ({} tokens with {} bytes in total)", texts.size(), total);
  bytes_.reserve(total);
  offsets_.reserve(texts.size() + 1);
  offsets_.push_back(0);
  const size_t mask = slots_.size() - 1;
  for (size_t id = 0; id < texts.size(); ++id) {
    bytes_ += texts[id];
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    if (texts[id].empty()) continue;
    const uint32_t hash = static_cast<uint32_t>(hash_bytes(texts[id]));
    size_t slot = hash & mask;
    bool seen = false;
    while (slots_[slot].id >= 0 && !seen) {
      seen = slots_[slot].hash == hash && text(slots_[slot].id) == texts[id];
      slot = (slot + 1) & mask;
    }
    if (!seen) slots_[slot] = {hash, static_cast<int32_t>(id)};
  }
}

int32_t Vocabulary::find(std::string_view wanted) const {
  const size_t mask = slots_.size() - 1;
  const uint32_t hash = static_cast<uint32_t>(hash_bytes(wanted));
  for (size_t slot = hash & mask; slots_[slot].id >= 0; slot = (slot + 1) & mask)
    if (slots_[slot].hash == hash && text(slots_[slot].id) == wanted) return slots_[slot].id;
  return -1;
}

std::array<int32_t, 256> Vocabulary::byte_tokens() const {
  std::array<int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = find(fmt::format("<0x{:02X}>", byte));
    ids[byte] = id >= 0 && kind(id) == TokenKind::byte ? id : -1;
  }
  return ids;
}

int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with(">")) return -1;
  if (!std::isxdigit(static_cast<unsigned char>(text[3])) || !std::isxdigit(static_cast<unsigned char>(text[4])))
    return -1;
  int byte = -1;
  std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  return byte;
}

} // namespace ridge::text
