// Word splitting by family; UTF-8.
#include "support/numerics.h"
#include "tests/text/token_samples.h"
#include "text/tokenizer/pretokenize.h"

#include <set>

using namespace ridge;
using text::Pretokenizer;

namespace {

std::vector<std::string> words(std::string_view family, std::string_view text) {
  std::vector<uint32_t> ends;
  Pretokenizer(*text::find_pretokenizer(family)).split(text, ends);
  std::vector<std::string> out;
  uint32_t start = 0;
  for (const uint32_t end : ends) {
    out.emplace_back(text.substr(start, end - start));
    start = end;
  }
  return out;
}

using Words = std::vector<std::string>;

} // namespace

TEST_CASE("families cut as their models' tokenizers do") {
  CHECK(words("gpt-2", "I've 123 dogs!!  \n x") == Words{"I", "'ve", " 123", " dogs", "!!", "  \n", " x"});
  CHECK(words("gpt-2", "I'VE") == Words{"I", "'", "VE"});
  CHECK(words("llama-bpe", "I'VE 12345 dogs!!\n\n x") == Words{"I", "'VE", " ", "123", "45", " dogs", "!!\n\n", " x"});
  CHECK(words("qwen2", "x=42;") == Words{"x", "=", "4", "2", ";"});
  CHECK(words("starcoder", " 42 a") == Words{" ", "4", "2", " a"});
  CHECK(words("deepseek-v3", "a1234,b\u65e5\u672ca") == Words{"a", "123", "4", ",b", "\u65e5\u672c", "a"});
  CHECK(words("deepseek-llm", "ab12\n c") == Words{"ab", "12", "\n", " c"});
  CHECK(words("deepseek-coder", "ab12\n c") == Words{"ab", "1", "2", "\n", " c"});
  CHECK(words("tekken", "HTTPServer fooBar's") == Words{"HTTPServer", " foo", "Bar", "'s"});
  CHECK(words("gpt-4o", "fooBar's 1234") == Words{"foo", "Bar's", " ", "123", "4"});
  CHECK(words("falcon", "a,b 12345") == Words{"a", ",", "b", " ", "123", "45"});
  CHECK(words("kimi-k2", "a\u65e5\u672cb") == Words{"a", "\u65e5\u672c", "b"});
  CHECK(words("qwen35", "a\u0301b 1") == Words{"a\u0301b", " ", "1"});
  CHECK(words("qwen2", "a\u0301b") == Words{"a", "\u0301b"});
  CHECK(words("gemma4", "a b\n\nc") == Words{"a b", "\n\n", "c"});
  CHECK(words("jais-2", std::string("a") + std::string(14, ' ') + "b") == Words{"a", "        ", "    ", " ", " b"});
  CHECK(words("afmoe", "a1234567,b 12") == Words{"a", "1", "234", "567", ",b", " ", "12"});
  CHECK(words("tiny_aya", "fooBar's 1234567") == Words{"foo", "Bar's", " ", "1", "234", "567"});
  CHECK(words("superbpe", "a b 1234567 c") == Words{"a b ", "1", "234", "567", " c"});
  CHECK(words("youtu", "ab12\uAC00\uAC01") == Words{"ab", "1", "2", "\uAC00\uAC01"});
  CHECK(words("chameleon", "ab  12!\n") == Words{"ab", "  ", "1", "2", "!", "\n"});
}

TEST_CASE("white space is Unicode's: U+0085 and U+3000 are, U+180E and U+200B are not") {
  CHECK(words("llama-bpe", "a\u0085\u3000 b") == Words{"a", "\u0085\u3000", " b"});
  CHECK(words("llama-bpe", "\u180E\u200B!") == Words{"\u180E\u200B!"});
}

TEST_CASE("names are unique and aliases find their family") {
  std::set<std::string> seen;
  for (const auto& family : text::pretokenizer_families()) {
    std::string_view rest = family.names;
    while (!rest.empty()) {
      const std::string name(rest.substr(0, rest.find(' ')));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      CAPTURE(name);
      CHECK(seen.insert(name).second);
      CHECK(text::find_pretokenizer(name) == &family);
    }
  }
  CHECK(text::find_pretokenizer("llama3") == text::find_pretokenizer("llama-bpe"));
  for (const char* unknown : {"", "llama", "gpt-2 mpt", "bpe"}) CHECK_FALSE(text::find_pretokenizer(unknown));
}

TEST_CASE("the words of every family make up the text, whatever bytes it has") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const auto& family : text::pretokenizer_families()) {
    CAPTURE(family.names);
    const Pretokenizer pretokenizer(family);
    for (int round = 0; round < 100; ++round) {
      std::string text = tests::random_text(random, random() % 60);
      if (round % 2) text.insert(random() % (text.size() + 1), 1, static_cast<char>(0x80 + random() % 128));
      std::vector<uint32_t> ends;
      pretokenizer.split(text, ends);
      uint32_t last = 0;
      for (const uint32_t end : ends) {
        REQUIRE(end > last);
        last = end;
      }
      REQUIRE(last == text.size());
    }
  }
}

TEST_CASE("no family gives up on a long run") {
  for (const auto& family : text::pretokenizer_families()) {
    CAPTURE(family.names);
    const Pretokenizer pretokenizer(family);
    for (const char* unit : {"a", "A", "aB", " ", "\n", "0", "!", "\u65e5", "\U0001F600", "a\u0301", "a ", " \n"}) {
      CAPTURE(unit);
      std::string text;
      while (text.size() < (1 << 20)) text += unit;
      std::vector<uint32_t> ends;
      pretokenizer.split(text, ends);
      REQUIRE(ends.back() == text.size());
    }
  }
}
