#include "text/tokenizer/spm.h"

#include "core/strings/utf8.h"

#include <bit>

namespace ridge::text {
namespace {

// Never matched by spelling: byte, control, <unk>.
bool matches_text(TokenKind kind) {
  return kind == TokenKind::normal || kind == TokenKind::user_defined || kind == TokenKind::unused;
}

// Decreasing in score.
uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f); // -0 becomes +0
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

// The first space mark that follows another character.
size_t word_end(std::string_view text) {
  size_t position = 0;
  while (text.substr(position).starts_with(kSpaceMark)) position += kSpaceMark.size();
  return std::min(text.find(kSpaceMark, position), text.size());
}

} // namespace

Spm::Spm(const Vocabulary& vocabulary, bool add_space_prefix, int32_t unknown_id)
    : vocabulary_(vocabulary), add_space_prefix_(add_space_prefix), unknown_id_(unknown_id),
      byte_ids_(vocabulary.byte_tokens()), merges_within_words_(true) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    if (!matches_text(vocabulary.kind(id)) || text.empty()) continue;
    longest_piece_bytes_ = std::max(longest_piece_bytes_, text.size());
    merges_within_words_ = merges_within_words_ && word_end(text) == text.size();
  }
}

int32_t Spm::find_piece(std::string_view text) const {
  if (text.size() > longest_piece_bytes_) return -1;
  const int32_t id = vocabulary_.find(text);
  return id >= 0 && matches_text(vocabulary_.kind(id)) ? id : -1;
}

void Spm::encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const {
  const auto scratch = scratches_.borrow(text.size());
  std::string marked(starts_text && add_space_prefix_ ? kSpaceMark : "");
  marked += replaced(text, " ", kSpaceMark);
  std::string_view rest = marked;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, merges_within_words_ ? word_end(rest) : rest.size());
    rest.remove_prefix(word.size());
    scratch->cache.append(word, ids, [&] { encode_word(word, *scratch, ids); });
  }
}

void Spm::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  Merger& merger = scratch.merger;
  merger.symbols.clear();
  for (uint32_t start = 0; start < word.size();) {
    const auto bytes = static_cast<uint32_t>(core::utf8_step(word.substr(start)));
    merger.add_symbol(start, bytes, find_piece(word.substr(start, bytes)));
    start += bytes;
  }
  merger.run([&](const Symbol& left, const Symbol& right) -> Merge {
    const int32_t id = find_piece(word.substr(left.start, left.bytes + right.bytes));
    return {id < 0 ? 0 : rank_of(vocabulary_.score(id)), id};
  });
  merger.emit(word, byte_ids_, unknown_id_, ids);
}

} // namespace ridge::text
