#include "text/tokenizer/bpe.h"

#include "core/error.h"
#include "core/strings/utf8.h"

#include <bit>

namespace ridge::text {
namespace {

// GPT-2 spells printable Latin-1 bytes as themselves, the other 68 as U+0100 and up.
struct ByteSpelling {
  std::array<std::string, 256> of_byte;
  std::array<int16_t, 0x144> byte_of;

  ByteSpelling() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t code_point = printable ? static_cast<char32_t>(byte) : next++;
      core::append_utf8(of_byte[byte], code_point);
      byte_of[code_point] = static_cast<int16_t>(byte);
    }
  }
};

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

const ByteSpelling& byte_spelling() {
  static const ByteSpelling spelling;
  return spelling;
}

} // namespace

Bpe::Bpe(const Vocabulary& vocabulary, std::span<const std::string_view> merges, const PretokenizerFamily& family,
         int32_t unknown_id)
    : vocabulary_(vocabulary), family_(family), pretokenizer_(family), unknown_id_(unknown_id) {
  if (family.byte_level)
    for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary.find(byte_spelling().of_byte[byte]);
  else
    byte_ids_ = vocabulary.byte_tokens();
  read_merges(merges);
}

void Bpe::read_merges(std::span<const std::string_view> merges) {
  std::vector<Slot> usable; // two loops: each keeps its tables in cache
  usable.reserve(merges.size());
  std::string both;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1); // not at 0: a piece may be a space
    if (space == std::string_view::npos || space + 1 == merge.size())
      throw_error("tokenizer.ggml.merges[{}]: expected two pieces separated by a space, found \"{}\"", rank, merge);
    both.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const int32_t left = vocabulary_.find(merge.substr(0, space));
    const int32_t right = vocabulary_.find(merge.substr(space + 1));
    const int32_t id = vocabulary_.find(both);
    if (left >= 0 && right >= 0 && id >= 0) usable.push_back({pair_of(left, right), {static_cast<uint32_t>(rank), id}});
  }
  unusable_merges_ = merges.size() - usable.size();

  merges_.resize(std::bit_ceil(usable.size() * 4 / 3 + 1));
  const size_t mask = merges_.size() - 1;
  for (const Slot& merge : usable) {
    size_t slot = mix(merge.pair) & mask;
    while (merges_[slot].pair != kFree && merges_[slot].pair != merge.pair) slot = (slot + 1) & mask;
    if (merges_[slot].pair == kFree) merges_[slot] = merge; // keeps the first of equal pairs
  }
}

Merge Bpe::find_merge(const Symbol& left, const Symbol& right) const {
  if (left.id < 0 || right.id < 0) return {0, -1};
  const uint64_t pair = pair_of(left.id, right.id);
  const size_t mask = merges_.size() - 1;
  for (size_t slot = mix(pair) & mask; merges_[slot].pair != kFree; slot = (slot + 1) & mask)
    if (merges_[slot].pair == pair) return merges_[slot].merge;
  return {0, -1};
}

void Bpe::encode(std::string_view text, bool, std::vector<int32_t>& ids) const {
  const auto scratch = scratches_.borrow(text.size());
  std::string marked;
  if (!family_.byte_level) text = marked = replaced(text, " ", kSpaceMark);
  scratch->ends.clear();
  pretokenizer_.split(text, scratch->ends);
  uint32_t start = 0;
  for (const uint32_t end : scratch->ends) {
    const std::string_view word = text.substr(start, end - start);
    start = end;
    scratch->cache.append(word, ids, [&] { encode_word(word, *scratch, ids); });
  }
}

// For families that do not merge whole tokens.
bool Bpe::encode_whole(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (family_.byte_level) {
    scratch.spelled.clear();
    for (const char c : word) scratch.spelled += byte_spelling().of_byte[static_cast<unsigned char>(c)];
    word = scratch.spelled;
  }
  const int32_t id = vocabulary_.find(word);
  if (id < 0 || vocabulary_.kind(id) == TokenKind::control || vocabulary_.kind(id) == TokenKind::unknown) return false;
  ids.push_back(id);
  return true;
}

void Bpe::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  // Without a byte level, line ends are words without merges.
  const bool whole = family_.ignore_merges || (!family_.byte_level && word.front() == '\n');
  if (whole && encode_whole(word, scratch, ids)) return;

  Merger& merger = scratch.merger;
  merger.symbols.clear();
  for (uint32_t start = 0; start < word.size();) {
    const auto bytes = family_.byte_level ? 1 : static_cast<uint32_t>(core::utf8_step(word.substr(start)));
    const int32_t id = family_.byte_level ? byte_ids_[static_cast<unsigned char>(word[start])]
                                          : vocabulary_.find(word.substr(start, bytes));
    merger.add_symbol(start, bytes, id);
    start += bytes;
  }
  merger.run([&](const Symbol& left, const Symbol& right) { return find_merge(left, right); });
  merger.emit(word, byte_ids_, unknown_id_, ids);
}

std::string Bpe::piece(std::string_view token_text) const {
  if (!family_.byte_level) return replaced(token_text, kSpaceMark, " ");
  std::string bytes;
  while (!token_text.empty()) {
    const std::string_view character = token_text.substr(0, core::utf8_step(token_text));
    const char32_t code_point = core::utf8_code_point(character);
    const auto& byte_of = byte_spelling().byte_of;
    if (code_point < byte_of.size() && byte_of[code_point] >= 0)
      bytes.push_back(static_cast<char>(byte_of[code_point]));
    else
      bytes += character; // a tool added this token verbatim
    token_text.remove_prefix(character.size());
  }
  return bytes;
}

} // namespace ridge::text
