// Random vocabularies and outputs for grammar tests.
#pragma once

#include "text/grammar/grammar_matcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

// Token 0 ends the output. Includes empty, multi-byte, partial and invalid UTF-8 pieces.
inline std::vector<std::string> odd_vocabulary(std::mt19937_64& random, const std::string& alphabet) {
  std::vector<std::string> pieces = {"</s>", "", "\xff\xfe", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
  for (int byte = 0; byte < 256; ++byte) pieces.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* piece :
       {"true",     "false", "null",     "\":",      "\", \"", "\"},",   "}]",   "]]", "{\"", "[[",
        "12",       "0.",    "e+",       "\\u",      "\\\"",   "é",      "日本", "ã",  "に",  "\xe3\x81",
        "\x81\xab", "😀",     "\xf0\x9f", "\x98\x80", " a",     "the ",   "1. ",  "e4", "Nf3", "O-O",
        "\n",       "\n\n",  "- ",       "= ",       "x+y",    "return", "int "}) {
    pieces.push_back(piece);
  }
  for (int i = 0; i < 200; ++i) {
    std::string piece;
    for (size_t n = 1 + random() % 5; n > 0; --n) piece += alphabet[random() % alphabet.size()];
    pieces.push_back(piece);
  }
  return pieces;
}

struct Walk {
  std::string text;
  bool is_complete;
};

// Pieces that end common languages, best first.
inline constexpr std::string_view kClosers = "}])\";\n0 =eul-:{(ab.!?";

// After `patience` tokens, ends the output if possible or prefers kClosers; gives up after 8 · patience.
inline Walk random_walk(text::GrammarMatcher& matcher, const text::TokenTable& table, std::mt19937_64& random,
                        int patience, std::string_view closers = kClosers) {
  matcher.reset();
  Walk walk;
  std::vector<float> logits(static_cast<size_t>(table.size()));
  std::vector<int32_t> allowed;
  const int32_t end = table.eog()[0];
  for (int i = 0; i < 8 * patience; ++i) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    matcher.apply(logits);
    allowed.clear();
    for (int32_t t = 0; t < table.size(); ++t) {
      if (logits[static_cast<size_t>(t)] == 0.0f) allowed.push_back(t);
    }
    REQUIRE_FALSE(allowed.empty());
    const bool can_end = logits[static_cast<size_t>(end)] == 0.0f;
    REQUIRE(can_end == matcher.can_end());
    int32_t token = allowed[random() % allowed.size()];
    if (i >= patience) {
      if (can_end) token = end;
      for (size_t c = 0; !can_end && c < closers.size(); ++c) {
        if (random() % 4 == 0) continue;
        const int32_t closer = table.find(closers.substr(c, 1));
        if (std::find(allowed.begin(), allowed.end(), closer) == allowed.end()) continue;
        token = closer;
        break;
      }
    }
    matcher.accept(token);
    if (token == end) {
      walk.is_complete = true;
      return walk;
    }
    walk.text += table.piece(token);
  }
  walk.is_complete = false;
  return walk;
}

} // namespace ridge::tests
