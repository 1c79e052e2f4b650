// Compares with slow reference implementations.
#include "core/error.h"
#include "support/numerics.h"
#include "tests/text/token_samples.h"
#include "text/tokenizer/token_charsmap.h"
#include "text/tokenizer/token_merge.h"

#include <cstring>
#include <map>
#include <optional>

using namespace ridge;
using tests::TokenSample;
using text::Tokenizer;

namespace {

std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.emplace_back(tokenizer.token_text(id));
  return texts;
}

std::vector<std::string> tokens(const TokenSample& sample, const std::string& text) {
  const Tokenizer tokenizer = sample.make();
  return texts_of(tokenizer, tokenizer.encode(text));
}

using Words = std::vector<std::string>;

} // namespace

TEST_CASE("merging with a heap gives what merging the best pair again and again gives") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::map<std::pair<int32_t, int32_t>, text::Merge> merges; // random merges of symbols 0..3
    for (int i = 0; i < 12; ++i)
      merges[{static_cast<int32_t>(random() % (4 + i)), static_cast<int32_t>(random() % (4 + i))}] = {
          static_cast<uint32_t>(random() % 8), 4 + i};
    const auto find = [&](int32_t left, int32_t right) {
      const auto found = merges.find({left, right});
      return found == merges.end() ? text::Merge{0, -1} : found->second;
    };
    text::Merger merger;
    std::vector<int32_t> slow;
    const auto symbols = static_cast<uint32_t>(random() % 30);
    for (uint32_t i = 0; i < symbols; ++i) {
      slow.push_back(static_cast<int32_t>(random() % 4));
      merger.add_symbol(i, 1, slow.back());
    }
    while (true) {
      std::optional<size_t> best;
      for (size_t i = 0; i + 1 < slow.size(); ++i)
        if (find(slow[i], slow[i + 1]).id >= 0 &&
            (!best || find(slow[i], slow[i + 1]).rank < find(slow[*best], slow[*best + 1]).rank))
          best = i;
      if (!best) break;
      slow[*best] = find(slow[*best], slow[*best + 1]).id;
      slow.erase(slow.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
    }
    merger.run([&](const text::Symbol& left, const text::Symbol& right) { return find(left.id, right.id); });
    std::vector<int32_t> fast;
    for (const auto& symbol : merger.symbols)
      if (symbol.bytes > 0) fast.push_back(symbol.id);
    REQUIRE(fast == slow);
  }
}

TEST_CASE("byte-level BPE merges by rank inside words") {
  const TokenSample sample = tests::byte_level_sample("qwen2");
  CHECK(tokens(sample, "lower low") == Words{"lower", "\u0120low"});
  CHECK(tokens(sample, "aaa") == Words{"aa", "a"});
  CHECK(tokens(sample, "aaaaaa") == Words{"aaaa", "aa"});
  CHECK(tokens(sample, "12") == Words{"1", "2"});
}

TEST_CASE("families that ignore merges take a word whole where it is a token, never a control token") {
  CHECK(tokens(tests::byte_level_sample("llama-bpe"), "a new") == Words{"a", "\u0120new"});
  CHECK(tokens(tests::byte_level_sample("qwen2"), "a new") == Words{"a", "\u0120", "n", "e", "w"});
  TokenSample sample = tests::byte_level_sample("llama-bpe");
  sample.add("bcd", text::TokenKind::control);
  CHECK(tokens(sample, "bcd") == Words{"b", "c", "d"});
}

TEST_CASE("merges that the vocabulary cannot use are reported, and malformed ones are refused") {
  TokenSample sample = tests::byte_level_sample();
  CHECK(sample.make().warnings().empty());
  sample.data.merges.push_back("q nosuch");
  CHECK(sample.make().warnings().size() == 1);
  for (const char* merge : {"", "ab", "ab ", " "}) {
    TokenSample broken = tests::byte_level_sample();
    broken.data.merges.push_back(merge);
    CHECK_THROWS_WITH_AS(broken.make(), doctest::Contains("tokenizer.ggml.merges[10]"), Error);
  }
}

TEST_CASE("a missing or unknown pre-tokenizer falls back to the default one and says so") {
  for (const char* pre : {"", "nobody-knows"}) {
    const Tokenizer tokenizer = tests::byte_level_sample(pre).make();
    CHECK(tokenizer.pretokenizer() == "default");
    REQUIRE(tokenizer.warnings().size() == 1);
    CHECK(tokenizer.warnings()[0].find("tokenizer.ggml.pre") != std::string::npos);
  }
}

TEST_CASE("SentencePiece BPE joins the best-scored neighbours, and spells the rest in bytes") {
  const TokenSample sample = tests::sentencepiece_sample("llama");
  CHECK(tokens(sample, "low") == Words{"\u2581low"});
  CHECK(tokens(sample, "lower") == Words{"\u2581low", "er"});
  CHECK(tokens(sample, "\u00e9\u00fc") == Words{"\u2581", "\u00e9", "<0xC3>", "<0xBC>"});
  CHECK(tokens(sample, "</s>") == Words{"\u2581", "<0x3C>", "<0x2F>", "<0x73>", "<0x3E>"});
}

TEST_CASE("SentencePiece BPE word by word gives what it gives on the whole text") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Tokenizer words = tests::sentencepiece_sample("llama").make();
  TokenSample sample = tests::sentencepiece_sample("llama");
  sample.add("x\u2581y", text::TokenKind::normal, -100);
  const Tokenizer whole = sample.make();
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "ablower  "[random() % 9];
    CAPTURE(text);
    REQUIRE(words.encode(text) == whole.encode(text));
  }
}

TEST_CASE("Unigram finds the best-scored spelling of all") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  TokenSample sample;
  sample.data.model = "t5";
  sample.data.add_space_prefix = false;
  sample.data.special = {.eos = 1, .unknown = 0};
  sample.add("<unk>", text::TokenKind::unknown);
  sample.add("</s>", text::TokenKind::control);
  for (const char* piece : {"a", "b", "c", "ab", "bc", "abc", "ca", "cab", "bb"})
    sample.add(piece, text::TokenKind::normal, -static_cast<float>(random() % 1000) / 100);
  const Tokenizer tokenizer = sample.make();
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint64_t left = 1 + random() % 10; left > 0; --left) text += static_cast<char>('a' + random() % 3);
    std::vector<double> best(text.size() + 1, -1e9); // per prefix, over all spellings
    best[0] = 0;
    for (size_t end = 1; end <= text.size(); ++end)
      for (size_t start = 0; start < end; ++start)
        if (const int32_t id = tokenizer.find(text.substr(start, end - start)); id > 0)
          best[end] = std::max(best[end], best[start] + sample.data.scores[id]);
    double score = 0;
    std::string spelled;
    for (const int32_t id : tokenizer.encode(text)) {
      score += sample.data.scores[id];
      spelled += tokenizer.token_text(id);
    }
    CHECK(spelled == text);
    CHECK(score == doctest::Approx(best.back()));
  }
  CHECK(tokenizer.encode("axyb") == std::vector<int32_t>{2, 0, 3}); // adjacent unknown characters merge
}

TEST_CASE("Unigram spells unknown characters in bytes where the vocabulary has all bytes") {
  CHECK(tokens(tests::sentencepiece_sample("t5"), "b\u00fc") == Words{"\u2581", "b", "<0xC3>", "<0xBC>"});
}

TEST_CASE("Unigram removes extra spaces where the file says so") {
  TokenSample sample = tests::sentencepiece_sample("t5");
  sample.data.remove_extra_whitespaces = true;
  const Tokenizer tokenizer = sample.make();
  CHECK(tokenizer.decode(tokenizer.encode("  a   b ")) == "a b");
  CHECK(tokenizer.encode("   ").empty());
}

TEST_CASE("compiled normalization rules replace the longest prefix, and broken ones never read outside") {
  std::vector<uint32_t> units(512); // A -> b, AA -> a as a double array; children of u are at offset(u) ^ byte
  const auto node = [](uint32_t offset, uint32_t label, bool value) {
    return offset << 10 | (value ? 256 : 0) | label;
  };
  units[0] = node(256, 0, false);
  units[256 ^ 'A'] = node(1, 'A', true);
  units[256 ^ 'A' ^ 1] = 1u << 31 | 0;
  units[256 ^ 'A' ^ 1 ^ 'A'] = node(2, 'A', true);
  units[256 ^ 'A' ^ 1 ^ 'A' ^ 2] = 1u << 31 | 2;
  const auto blob_of = [&] {
    std::string blob(4 + 4 * units.size(), '\0');
    const auto bytes = static_cast<uint32_t>(4 * units.size());
    std::memcpy(blob.data(), &bytes, 4);
    std::memcpy(blob.data() + 4, units.data(), bytes);
    return blob + std::string("b\0a\0", 4);
  };
  TokenSample sample = tests::sentencepiece_sample("t5");
  sample.data.charsmap = sample.keep(blob_of());
  CHECK(sample.make().decode(sample.make().encode("rAerAAw")) == "rberaw");

  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 20; ++i) units[random() % units.size()] = static_cast<uint32_t>(random());
    sample.data.charsmap = sample.keep(blob_of());
    const Tokenizer tokenizer = sample.make();
    for (int byte = 1; byte < 256; ++byte) tokenizer.encode(std::string(3, static_cast<char>(byte)));
  }
  for (const std::string& blob : {std::string("\1"), std::string(8, '\xff'), std::string(12, '\0'), blob_of() + "x"})
    CHECK_THROWS_WITH_AS(text::Charsmap{blob}, doctest::Contains("precompiled_charsmap"), Error);
}

TEST_CASE("RWKV takes the longest token, whose bytes the file escapes") {
  TokenSample sample;
  sample.data.model = "rwkv";
  sample.add("<s>", text::TokenKind::control);
  for (const char* text : {"a", "ab", "abcd", "\\n", "\\n\\n", "\\xe4\\xb8", "\\xad", "\\\\", "\\'"}) sample.add(text);
  CHECK(tokens(sample, "abcab\n\n\n\u4e2d\\'") ==
        Words{"ab", "ab", "\\n\\n", "\\n", "\\xe4\\xb8", "\\xad", "\\\\", "\\'"});
  const Tokenizer tokenizer = sample.make();
  CHECK(tokenizer.decode(tokenizer.encode("ab\n\u4e2d\\")) == "ab\n\u4e2d\\");
  CHECK(tokenizer.encode("a", {.add_special = true}) == tokenizer.encode("a"));
}

TEST_CASE("PLaMo 2 takes the cheapest way, the longest first token of equal ones, and bytes where there is none") {
  TokenSample sample;
  sample.data.model = "plamo2";
  for (const char* text : {"<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>"})
    sample.add(text, text::TokenKind::control);
  for (int byte = 0; byte < 256; ++byte) sample.add(fmt::format("<0x{:02X}>", byte), text::TokenKind::byte);
  sample.add("a", text::TokenKind::normal, -1);
  sample.add("b", text::TokenKind::normal, -1);
  sample.add("ab", text::TokenKind::normal, -3);
  sample.add("abb", text::TokenKind::normal, -2.5f);
  sample.add(" b", text::TokenKind::normal, -1);
  sample.add("a b", text::TokenKind::normal, -2);
  CHECK(tokens(sample, "abbab") == Words{"abb", "a", "b"}); // ab costs 3, a and b cost 2
  CHECK(tokens(sample, "a b") == Words{"a b"});
  CHECK(tokens(sample, "\uFEFFac\u00e9") == Words{"a", "<0x63>", "<0xC3>", "<0xA9>"});
  const Tokenizer tokenizer = sample.make();
  for (const char* text : {"abba b c\u4e2d<|plamo:eos|>",
                           "\xff"
                           "a\xe4\xb8",
                           ""})
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.encode("a", {.add_special = true}) == tokenizer.encode("a"));
  sample.data.tokens[9] = "x";
  CHECK_THROWS_WITH_AS(sample.make(), doctest::Contains("needs a token for each byte"), Error);
}

TEST_CASE("WordPiece cuts words and punctuation, folds case and accents, and gives up a word whole") {
  TokenSample sample;
  sample.data.model = "bert";
  sample.add("[UNK]", text::TokenKind::unknown);
  sample.data.special.bos = sample.add("[CLS]", text::TokenKind::control);
  sample.data.special.separator = sample.add("[SEP]", text::TokenKind::control);
  sample.data.special.unknown = 0;
  for (const char* text : {"\u2581caf", "e", "s", "\u2581,", "\u2581\u4e2d", "\u2581a", "\u2581ab"}) sample.add(text);
  CHECK(tokens(sample, "Caf\u00c9s,\u4e2da  abz\tabs") ==
        Words{"\u2581caf", "e", "s", "\u2581,", "\u2581\u4e2d", "\u2581a", "[UNK]", "\u2581ab", "s"});
  const Tokenizer tokenizer = sample.make();
  CHECK(texts_of(tokenizer, tokenizer.encode("a", {.add_special = true})) == Words{"[CLS]", "\u2581a", "[SEP]"});
  CHECK(tokenizer.decode(tokenizer.encode("cafe ab")) == "cafe ab");
  sample.data.lowercase = false;
  CHECK(tokens(sample, "cafe Cafe") == Words{"\u2581caf", "e", "[UNK]"});
}

TEST_CASE("Phi-3's special tokens take the white space behind them") {
  TokenSample sample = tests::byte_level_sample();
  sample.add("<s>", text::TokenKind::control);
  const auto texts = [&] {
    const Tokenizer tokenizer = sample.make();
    return texts_of(tokenizer, tokenizer.encode("<|user|>\n\nlow<|end_of_text|> <s> a", {.parse_special = true}));
  };
  CHECK(texts() == Words{"<|user|>", "\u010a\u010a", "low", "<|end_of_text|>", "\u0120", "<s>", "\u0120", "a"});
  sample.data.special_takes_space = true;
  CHECK(texts() == Words{"<|user|>", "low", "<|end_of_text|>", "<s>", "\u0120", "a"});
}

TEST_CASE("Gemma 4's tokenizer begins texts with BOS, also where the file says not to") {
  TokenSample sample = tests::sentencepiece_sample("gemma4");
  sample.merge("l", "o");
  sample.data.add_bos = false;
  CHECK(sample.make().add_bos());
  TokenSample other = tests::byte_level_sample();
  other.data.special.bos = other.data.special.eos;
  other.data.add_bos = false;
  CHECK(!other.make().add_bos());
}
