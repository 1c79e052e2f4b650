// Small vocabularies of each kind that can spell any text, and random text.
#pragma once

#include "core/error.h"
#include "core/strings/utf8.h"
#include "text/tokenizer/tokenizer.h"

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

struct TokenSample {
  text::TokenizerData data;
  std::deque<std::string> strings; // stable when the sample moves

  TokenSample() = default;
  TokenSample(TokenSample&&) = default;

  std::string_view keep(std::string text) { return strings.emplace_back(std::move(text)); }
  int32_t add(std::string text, text::TokenKind kind = text::TokenKind::normal, float score = 0) {
    data.tokens.push_back(keep(std::move(text)));
    data.kinds.push_back(kind);
    data.scores.push_back(score);
    return static_cast<int32_t>(data.tokens.size()) - 1;
  }
  void merge(const std::string& left, const std::string& right) {
    data.merges.push_back(keep(left + " " + right));
    add(left + right);
  }
  text::Tokenizer make() const { return text::Tokenizer(data); }
};

// IDs 0-255: bytes in order of spelling; then merges; last <|end_of_text|>, <|user|> (user-defined).
inline TokenSample byte_level_sample(std::string_view pre = "llama-bpe") {
  using text::TokenKind;
  TokenSample sample;
  sample.data.model = "gpt2";
  sample.data.pre = pre;
  for (int pass = 0; pass < 2; ++pass) // printable Latin-1, then U+0100 and up
    for (int byte = 0, next = 0x100; byte < 256; ++byte) {
      const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      std::string spelled;
      core::append_utf8(spelled, static_cast<char32_t>(printable ? byte : next++));
      if (printable == (pass == 0)) sample.add(spelled);
    }
  const std::pair<const char*, const char*> merges[] = {
      {"l", "o"}, {"lo", "w"},  {"e", "r"},           {"low", "er"},        {"\u0120", "low"},
      {"a", "a"}, {"aa", "aa"}, {"\u0120", "\u0120"}, {"\u010a", "\u010a"}, {"1", "2"}};
  for (const auto& [left, right] : merges) sample.merge(left, right);
  sample.add("\u0120new");
  sample.data.special.eos = sample.add("<|end_of_text|>", TokenKind::control);
  sample.add("<|user|>", TokenKind::user_defined);
  return sample;
}

// IDs 0-2: <unk>, <s>, </s>; 3-258: bytes; then pieces.
inline TokenSample sentencepiece_sample(std::string_view model) {
  using text::TokenKind;
  TokenSample sample;
  sample.data.model = model;
  sample.add("<unk>", TokenKind::unknown);
  sample.data.special.bos = sample.add("<s>", TokenKind::control);
  sample.data.special.eos = sample.add("</s>", TokenKind::control);
  sample.data.special.unknown = 0;
  for (int byte = 0; byte < 256; ++byte) sample.add(fmt::format("<0x{:02X}>", byte), TokenKind::byte);
  float score = -1;
  for (const char* piece : {"\u2581",
                            "\u2581\u2581",
                            "\u2581lo",
                            "lo",
                            "ow",
                            "\u2581low",
                            "er",
                            "lower",
                            "aa",
                            "aaaa",
                            "a",
                            "b",
                            "e",
                            "l",
                            "o",
                            "r",
                            "w",
                            "\u00e9",
                            "\u65e5\u672c",
                            "\u65e5",
                            "\u672c"})
    sample.add(piece, TokenKind::normal, score -= 1);
  sample.add("<|user|>", TokenKind::user_defined);
  return sample;
}

// Without U+0000 and U+2581 (SentencePiece's space).
inline std::string random_text(std::mt19937_64& random, size_t characters) {
  const char32_t ranges[][2] = {{'a', 'e'},         {'l', 'w'},       {' ', ' '},       {1, 0x7f},
                                {'0', '9'},         {0x80, 0x24f},    {0x300, 0x36f},   {0x3040, 0x30ff},
                                {0x65e5, 0x65e5},   {0x4e00, 0x9fff}, {0x2000, 0x206f}, {0x1f300, 0x1f64f},
                                {0xe000, 0x10ffff}, {'\n', '\n'},     {'\r', '\r'}};
  std::string text;
  for (size_t i = 0; i < characters;) {
    const auto& range = ranges[random() % std::size(ranges)];
    for (size_t run = 1 + random() % 4; run > 0 && i < characters; --run, ++i)
      core::append_utf8(text, range[0] + static_cast<char32_t>(random() % (range[1] - range[0] + 1)));
  }
  return text;
}

} // namespace ridge::tests
