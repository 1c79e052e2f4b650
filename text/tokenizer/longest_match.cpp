#include "text/tokenizer/longest_match.h"

#include "core/strings/utf8.h"

#include <utf8proc.h>

namespace ridge::text {
namespace {

void insert_ordinary(const Vocabulary& vocabulary, TokenTrie& tokens, auto&& bytes_of) {
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.kind(id) == TokenKind::normal || vocabulary.kind(id) == TokenKind::user_defined)
      tokens.insert(bytes_of(vocabulary.text(id)), id);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool is_white_space(int32_t c) {
  const auto category = utf8proc_category(c);
  return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_control(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
         category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CN;
}

bool is_chinese(int32_t c) {
  constexpr std::pair<int32_t, int32_t> kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                                                     {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges)
    if (c >= first && c <= last) return true;
  return false;
}

bool stands_alone(int32_t c, utf8proc_category_t category) {
  const bool punctuation = category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
  const bool ascii_symbol = c < 0x7F && category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
  return punctuation || ascii_symbol || is_chinese(c);
}

} // namespace

Rwkv::Rwkv(const Vocabulary& vocabulary, int32_t unknown_id) : unknown_id_(unknown_id) {
  insert_ordinary(vocabulary, tokens_, [&](std::string_view text) { return piece(text); });
}

void Rwkv::encode(std::string_view text, bool, std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const TokenTrie::Match match = tokens_.longest(text);
    if (match.id >= 0 || unknown_id_ >= 0) ids.push_back(match.id >= 0 ? match.id : unknown_id_);
    text.remove_prefix(match.id >= 0 ? match.bytes : 1);
  }
}

std::string Rwkv::piece(std::string_view token_text) const {
  std::string bytes;
  for (size_t i = 0; i < token_text.size(); ++i) {
    char c = token_text[i];
    if (c == '\\' && i + 1 < token_text.size()) {
      c = token_text[++i];
      const int high = i + 2 < token_text.size() ? hex_digit(token_text[i + 1]) : -1;
      const int low = high >= 0 ? hex_digit(token_text[i + 2]) : -1;
      if (c == 'x' && low >= 0) {
        c = static_cast<char>(high * 16 + low);
        i += 2;
      } else {
        c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
      }
    }
    bytes += c;
  }
  return bytes;
}

WordPiece::WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options) : options_(options) {
  insert_ordinary(vocabulary, tokens_, [](std::string_view text) { return text; });
}

void WordPiece::encode(std::string_view text, bool, std::vector<int32_t>& ids) const {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) encode_word(word, ids);
    word.clear();
  };
  const auto take = [&](int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    if (is_white_space(c)) return end_word();
    if (c == 0 || c == 0xFFFD || is_control(category)) return;
    if (options_.strip_accents && category == UTF8PROC_CATEGORY_MN) return;
    const bool alone = stands_alone(c, category);
    if (alone) end_word();
    core::append_utf8(word, static_cast<char32_t>(options_.lowercase ? utf8proc_tolower(c) : c));
    if (alone) end_word();
  };
  while (!text.empty()) {
    const core::Utf8Head head = core::utf8_head(text);
    if (head.status == core::Utf8Status::valid) {
      const auto c = static_cast<int32_t>(core::utf8_code_point(text.substr(0, head.bytes)));
      int32_t parts[32] = {c};
      int boundary = 0;
      const auto count = options_.strip_accents
                             ? utf8proc_decompose_char(c, parts, std::size(parts), UTF8PROC_DECOMPOSE, &boundary)
                             : 1;
      for (utf8proc_ssize_t i = 0; i < count; ++i) take(parts[i]);
    }
    text.remove_prefix(head.bytes);
  }
  end_word();
}

void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const std::string marked = std::string(kSpaceMark) + std::string(word);
  const size_t before = ids.size();
  for (std::string_view rest = marked; !rest.empty();) {
    const TokenTrie::Match match = tokens_.longest(rest);
    if (match.id < 0) {
      ids.resize(before);
      if (options_.unknown_id >= 0) ids.push_back(options_.unknown_id);
      return;
    }
    ids.push_back(match.id);
    rest.remove_prefix(match.bytes);
  }
}

} // namespace ridge::text
