// A SentencePiece ModelProto, in protocol buffers (https://protobuf.dev/programming-guides/encoding).
#include "convert/import/tokenizers/tokenizer.h"
#include "core/error.h"

#include <cmath>
#include <cstring>

namespace ridge::convert::import {
namespace {

using text::TokenKind;

class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  int field = 0;
  uint64_t number = 0;
  std::string_view bytes;
  bool is_bytes = false;

  bool next() {
    if (bytes_.empty()) return false;
    const uint64_t key = varint();
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) damaged("a field number out of range");
    field = static_cast<int>(key >> 3);
    is_bytes = (key & 7) == 2;
    bytes = {};
    switch (key & 7) {
    case 0: number = varint(); break;
    case 1: number = fixed(8); break;
    case 2: {
      const uint64_t size = varint();
      if (size > bytes_.size()) damaged("a field reaches past the end; the download is incomplete");
      bytes = bytes_.substr(0, size);
      bytes_.remove_prefix(size);
      break;
    }
    case 5: number = fixed(4); break;
    default: damaged("an unknown wire type");
    }
    return true;
  }

  float as_float() const {
    float value;
    const auto bits = static_cast<uint32_t>(number);
    std::memcpy(&value, &bits, 4);
    return value;
  }

  [[noreturn]] void damaged(std::string_view what) const {
    throw_error("{}: not a SentencePiece model: {}", where_, what);
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) damaged("it ends inside a number; the download is incomplete");
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number is too long");
  }

  uint64_t fixed(size_t size) {
    if (bytes_.size() < size) damaged("it ends inside a number; the download is incomplete");
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return value;
  }

  std::string_view bytes_;
  const std::string& where_;
};

Token read_piece(std::string_view bytes, const std::string& where) {
  Token token;
  for (Message message(bytes, where); message.next();) {
    if (message.field == 1 && message.is_bytes) token.text = message.bytes;
    if (message.field == 2) token.score = message.as_float();
    // Same numbers in GGUF.
    if (message.field == 3 && message.number >= 1 && message.number <= 6)
      token.kind = static_cast<TokenKind>(message.number);
  }
  if (!std::isfinite(token.score)) throw_error("{}: a piece's score is not finite", where);
  return token;
}

} // namespace

Vocabulary read_sentencepiece(std::string_view model, const std::string& where, int64_t limit) {
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  Vocabulary out;
  uint64_t kind = kUnigram;
  out.special = {{"unknown", 0}, {"bos", 1}, {"eos", 2}};
  out.add_space_prefix = true;
  out.remove_extra_whitespaces = true;
  for (Message message(model, where); message.next();) {
    if (!message.is_bytes) continue;
    if (message.field == 1)
      out.set(std::ssize(out.tokens), read_piece(message.bytes, where), limit, where);
    else if (message.field == 2)
      for (Message trainer(message.bytes, where); trainer.next();) {
        const auto id = static_cast<int32_t>(trainer.number);
        if (trainer.field == 3) kind = trainer.number;
        if (trainer.field == 40) out.special["unknown"] = id;
        if (trainer.field == 41) out.special["bos"] = id;
        if (trainer.field == 42) out.special["eos"] = id;
        if (trainer.field == 43) out.special["padding"] = id;
      }
    else if (message.field == 3)
      for (Message normalizer(message.bytes, where); normalizer.next();) {
        if (normalizer.field == 2 && normalizer.is_bytes) out.charsmap = normalizer.bytes;
        if (normalizer.field == 3) out.add_space_prefix = normalizer.number != 0;
        if (normalizer.field == 4) out.remove_extra_whitespaces = normalizer.number != 0;
      }
  }
  if (out.tokens.empty()) throw_error("{}: not a SentencePiece model: it contains no pieces", where);
  if (kind != kUnigram && kind != kBpe)
    throw_error("{}: word and character models of SentencePiece cannot be converted", where);
  out.model = kind == kBpe ? "llama" : "t5";
  if (kind == kBpe) { // BPE models keep text and spaces unchanged
    out.charsmap.clear();
    out.remove_extra_whitespaces.reset();
  }
  return out;
}

} // namespace ridge::convert::import
