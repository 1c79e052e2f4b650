// RWKV's vocabulary: lines of ID, Python literal ('…' or b'…') and size. GGUF stores the bytes as a Python literal.
#include "convert/import/tokenizers/tokenizer.h"

#include "core/error.h"
#include "core/strings/utf8.h"

#include <charconv>

namespace ridge::convert::import {
namespace {

using text::TokenKind;

constexpr const char* kEnd = "<s>"; // token 0, missing in files; at both ends of texts
constexpr int64_t kTurnEnd = 261;   // two line breaks

std::optional<uint32_t> hexadecimal(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return value;
}

// nullopt: invalid.
std::optional<std::string> read_literal(std::string_view literal) {
  const bool of_bytes = literal.starts_with('b');
  if (of_bytes) literal.remove_prefix(1);
  if (literal.size() < 2 || (literal[0] != '\'' && literal[0] != '"') || literal.back() != literal[0])
    return std::nullopt;
  literal = literal.substr(1, literal.size() - 2);
  std::string bytes;
  while (!literal.empty()) {
    if (literal[0] != '\\' || literal.size() < 2) {
      bytes += literal[0];
      literal.remove_prefix(1);
      continue;
    }
    const char kind = literal[1];
    literal.remove_prefix(2);
    constexpr std::string_view kKinds = "ntr\\'\"", kMeant = "\n\t\r\\'\"";
    if (const size_t at = kKinds.find(kind); at != std::string_view::npos) {
      bytes += kMeant[at];
      continue;
    }
    const size_t digits = kind == 'x' ? 2 : kind == 'u' && !of_bytes ? 4 : kind == 'U' && !of_bytes ? 8 : 0;
    const auto code = literal.size() < digits ? std::nullopt : hexadecimal(literal.substr(0, digits));
    if (!code || *code > 0x10FFFF) return std::nullopt;
    if (of_bytes)
      bytes += static_cast<char>(*code);
    else
      core::append_utf8(bytes, *code);
    literal.remove_prefix(digits);
  }
  return bytes;
}

std::string written(std::string_view bytes) {
  const bool escapes_quotes = bytes.find('\'') != bytes.npos && bytes.find('"') != bytes.npos;
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\r')
      text += "\\r";
    else if (c == '\\' || (c == '\'' && escapes_quotes))
      text += {'\\', c};
    else if (byte < 0x20 || byte >= 0x7F)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text;
}

} // namespace

Vocabulary read_rwkv(std::string_view lines, const std::string& where, int64_t limit) {
  Vocabulary out;
  out.model = "rwkv";
  out.set(0, {kEnd, 0, TokenKind::control}, limit, where);
  for (int64_t number = 1; !lines.empty(); ++number) {
    std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t first = line.find(' '), last = line.rfind(' ');
    int64_t id = -1, size = -1;
    std::optional<std::string> bytes;
    if (first != line.npos && last > first) {
      std::from_chars(line.data(), line.data() + first, id);
      std::from_chars(line.data() + last + 1, line.data() + line.size(), size);
      bytes = read_literal(line.substr(first + 1, last - first - 1));
    }
    if (id < 1 || !bytes || std::ssize(*bytes) != size)
      throw_error("{}: line {}: expected a token id, its quoted text and its length in bytes", where, number);
    out.set(id, {written(*bytes), 0, TokenKind::normal}, limit, where);
  }
  out.special = {{"bos", 0}, {"eos", 0}};
  if (std::ssize(out.tokens) > kTurnEnd) out.ends = {0, static_cast<uint32_t>(kTurnEnd)};
  return out;
}

} // namespace ridge::convert::import
