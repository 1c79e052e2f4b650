#include "core/error.h"
#include "support/numerics.h"
#include "support/watchdog.h"
#include "tests/text/token_samples.h"

#include <algorithm>

using namespace ridge;
using tests::TokenSample;
using text::DecodeOptions;
using text::StreamDecoder;
using text::Tokenizer;
using text::TokenKind;

namespace {

std::vector<TokenSample> all_samples() {
  std::vector<TokenSample> samples;
  for (const char* pre : {"llama-bpe", "gpt-2", "qwen2", "deepseek-llm", "default"})
    samples.push_back(tests::byte_level_sample(pre));
  for (const char* model : {"llama", "t5"}) samples.push_back(tests::sentencepiece_sample(model));
  TokenSample plain = tests::sentencepiece_sample("llama"); // like Gemma: no leading space
  plain.data.add_space_prefix = false;
  samples.push_back(std::move(plain));
  TokenSample gemma4 = tests::sentencepiece_sample("gemma4");
  gemma4.merge("l", "o");
  samples.push_back(std::move(gemma4));
  return samples;
}

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::initializer_list<const char*> texts) {
  std::vector<int32_t> ids;
  for (const char* text : texts) {
    CAPTURE(text);
    REQUIRE(tokenizer.find(text) >= 0);
    ids.push_back(tokenizer.find(text));
  }
  return ids;
}

} // namespace

TEST_CASE("decoding what was encoded gives the text back, in every model") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const TokenSample& sample : all_samples()) {
    const Tokenizer tokenizer = sample.make();
    CAPTURE(tokenizer.model());
    CAPTURE(tokenizer.pretokenizer());
    for (int round = 0; round < 200; ++round) {
      std::string text = tests::random_text(random, random() % 40);
      if (round % 5 == 0) text = "low<|user|> " + text;
      CAPTURE(text);
      const auto ids = tokenizer.encode(text);
      REQUIRE(tokenizer.decode(ids) == text);
      StreamDecoder stream(tokenizer, {.continues = false});
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.push(id);
      REQUIRE(streamed + stream.finish() == text);
    }
  }
}

TEST_CASE("bytes that are not UTF-8 come back unchanged, and no stray byte breaks a tokenizer") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const TokenSample& sample : all_samples()) {
    const Tokenizer tokenizer = sample.make();
    CAPTURE(tokenizer.model());
    for (int round = 0; round < 200; ++round) {
      std::string bytes = tests::random_text(random, random() % 10);
      for (int i = 0; i < 6; ++i)
        bytes.insert(random() % (bytes.size() + 1), 1, static_cast<char>(0x80 + random() % 128));
      const std::string back = tokenizer.decode(tokenizer.encode(bytes));
      if (tokenizer.model() != "t5" && bytes.find("\u2581") == std::string::npos) REQUIRE(back == bytes);
    }
  }
}

TEST_CASE("special tokens in a text are text, unless they are asked for") {
  const Tokenizer tokenizer = tests::byte_level_sample().make();
  const int32_t end = tokenizer.find("<|end_of_text|>");
  const std::string text = "low<|end_of_text|>low";
  const auto as_text = tokenizer.encode(text);
  CHECK(std::ranges::find(as_text, end) == as_text.end());
  const auto parsed = tokenizer.encode(text, {.parse_special = true});
  CHECK(parsed == ids_of(tokenizer, {"low", "<|end_of_text|>", "low"}));
  CHECK(tokenizer.decode(parsed) == "lowlow");
  CHECK(tokenizer.decode(parsed, {.render_special = true}) == text);
}

TEST_CASE("control tokens that overlap data are text") {
  TokenSample sample = tests::byte_level_sample();
  sample.add("<|end", TokenKind::control);
  const Tokenizer tokenizer = sample.make();
  const std::string end = "<|end_of_text|>", text = end + end + "<|user|>"; // control, control, user-defined
  const auto encode = [&](std::vector<text::ByteSpan> data) {
    return tokenizer.encode(text, {.parse_special = true, .data = data});
  };
  const auto counts = [&](const std::vector<int32_t>& ids) {
    const auto of = [&](std::string_view token) { return std::ranges::count(ids, tokenizer.find(token)); };
    return std::vector<int64_t>{of(end), of("<|end"), of("<|user|>")};
  };
  const auto size = text.size();
  CHECK(encode({}) == tokenizer.encode(text, {.parse_special = true}));
  CHECK(encode({{0, size}}) == tokenizer.encode(text));
  CHECK(counts(encode({{0, size}})) == std::vector<int64_t>{0, 0, 1});
  CHECK(counts(encode({{0, 15}})) == std::vector<int64_t>{1, 0, 1});
  CHECK(counts(encode({{15, 16}})) == std::vector<int64_t>{1, 0, 1});
  CHECK(counts(encode({{14, 15}, {30, size}})) ==
        std::vector<int64_t>{1, 1, 1}); // the shorter one ends before the data
  CHECK(counts(encode({{1, 2}, {29, 30}})) == std::vector<int64_t>{0, 1, 1});
  CHECK(counts(encode({{1, 2}, {20, 21}})) == std::vector<int64_t>{0, 1, 1});
  CHECK(counts(encode({{1, 2}, {19, 20}})) == std::vector<int64_t>{0, 0, 1});
  for (size_t begin = 0; begin < size; ++begin)
    CHECK(tokenizer.decode(encode({{begin, begin + 1}}), {.render_special = true}) == text);
}

TEST_CASE("user-defined tokens are matched in every text, the longest first") {
  TokenSample sample = tests::byte_level_sample();
  sample.add("<|user|>low", TokenKind::user_defined);
  const Tokenizer tokenizer = sample.make();
  CHECK(tokenizer.encode("a<|user|>b<|user|>low") == ids_of(tokenizer, {"a", "<|user|>", "b", "<|user|>low"}));
}

TEST_CASE("BOS and EOS are added where the model wants them and the caller asks") {
  TokenSample sample = tests::sentencepiece_sample("llama");
  CHECK(sample.make().encode("b").front() != 1);
  CHECK(sample.make().encode("b", {.add_special = true}).front() == 1);
  CHECK(sample.make().encode("", {.add_special = true}) == std::vector<int32_t>{1});
  sample.data.add_eos = true;
  CHECK(sample.make().encode("b", {.add_special = true}).back() == 2);
  sample.data.add_bos = false;
  CHECK(sample.make().encode("", {.add_special = true}) == std::vector<int32_t>{2});

  TokenSample bpe = tests::byte_level_sample("llama-bpe");
  CHECK_FALSE(bpe.make().add_bos()); // the family adds BOS, but the file has none
  bpe.data.special.bos = bpe.data.special.eos;
  CHECK(bpe.make().add_bos());
  bpe.data.pre = "qwen2";
  CHECK_FALSE(bpe.make().add_bos());
}

TEST_CASE("the special tokens between a repository's files end the generated part, ordinary ones do not") {
  for (const char* text : {"<fim_pad>", "<reponame>", "<|fim_repo|>", "<|file_sep|>", "<|fim_pad|>"}) {
    CAPTURE(text);
    TokenSample sample = tests::byte_level_sample();
    const int32_t id = sample.add(text, TokenKind::control);
    CHECK(sample.make().is_eog(id));
  }
  TokenSample sample = tests::byte_level_sample();
  const int32_t word = sample.add("<reponame>");
  CHECK_FALSE(sample.make().is_eog(word));
}

TEST_CASE("generation ends at eos, eot, and the tokens known to end a turn") {
  TokenSample sample = tests::byte_level_sample();
  const int32_t im_end = sample.add("<|im_end|>");
  const int32_t word = sample.add("</s>");
  const int32_t end = sample.add("<|end|>", TokenKind::control);
  const Tokenizer tokenizer = sample.make();
  CHECK(tokenizer.is_eog(tokenizer.eos()));
  CHECK(tokenizer.is_eog(im_end));
  CHECK(tokenizer.kind(im_end) == TokenKind::control);
  CHECK(tokenizer.eot() == im_end);
  CHECK_FALSE(tokenizer.is_eog(word));
  CHECK(tokenizer.is_eog(end));
  CHECK_FALSE(tokenizer.is_eog(tokenizer.find("low")));

  sample.add("<|return|>", TokenKind::control); // here <|end|> ends a part only
  sample.add("<|call|>", TokenKind::control);
  sample.data.special.eot = end;
  CHECK_FALSE(sample.make().is_eog(end));
}

TEST_CASE("each family's ends are known by their texts") {
  for (const char* text :
       {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|return|>", "<|call|>", "<|eot|>", "[e~[",
        "[EOS]", "</s>", "<|endoftext|>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"}) {
    CAPTURE(text);
    TokenSample sample = tests::byte_level_sample();
    const int32_t id = sample.add(text, TokenKind::control);
    const int32_t other = sample.add("<|start|>", TokenKind::control);
    CHECK(sample.make().is_eog(id));
    CHECK_FALSE(sample.make().is_eog(other));
  }
}

TEST_CASE("a stream never shows half a character") {
  const Tokenizer tokenizer = tests::sentencepiece_sample("llama").make();
  const auto byte = [&](int value) { return 3 + value; };
  StreamDecoder stream(tokenizer);
  CHECK(stream.push(byte(0xF0)) == "");
  CHECK(stream.push(byte(0x9F)) == "");
  CHECK(stream.push(byte(0x98)) == "");
  CHECK(stream.push(byte(0x80)) == "\U0001F600");
  CHECK(stream.push(byte(0xE2)) == "");
  CHECK(stream.push(byte(0x82)) == "");
  CHECK(stream.push(tokenizer.find("lo")) == "\uFFFDlo"); // invalid: one sign for two bytes
  CHECK(stream.push(byte(0xFF)) == "\uFFFD");
  CHECK(stream.push(byte(0xC3)) == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.finish() == "");
}

TEST_CASE("a leading space is stripped where encoding adds one, and only there") {
  const Tokenizer tokenizer = tests::sentencepiece_sample("llama").make();
  const auto ids = ids_of(tokenizer, {"\u2581low", "\u2581low"});
  CHECK(tokenizer.encode("low low") == ids);
  CHECK(tokenizer.decode(ids) == "low low");
  CHECK(tokenizer.decode(ids, {.continues = true}) == " low low");
  StreamDecoder stream(tokenizer);
  CHECK(stream.push(ids[0]) == " low");
  const auto around = tokenizer.encode("low</s>low", {.parse_special = true});
  CHECK(around == ids_of(tokenizer, {"\u2581low", "</s>", "\u2581low"}));
  CHECK(tokenizer.decode(around, {.render_special = true}) == "low</s>low");
}

TEST_CASE("a token's piece is the bytes it adds") {
  const Tokenizer bytes = tests::byte_level_sample().make();
  CHECK(bytes.piece(bytes.find("\u0120low")) == " low");
  CHECK(bytes.piece(bytes.find("\u00c3")) == "\xC3"); // half a character
  CHECK(bytes.token_text(bytes.find("\u0120low")) == "\u0120low");
  const Tokenizer pieces = tests::sentencepiece_sample("llama").make();
  CHECK(pieces.piece(pieces.find("\u2581low")) == " low");
  CHECK(pieces.piece(pieces.find("<0x0A>")) == "\n");
  CHECK(pieces.piece(pieces.find("</s>")) == "</s>");
}

TEST_CASE("ids outside the vocabulary are refused") {
  const Tokenizer tokenizer = tests::byte_level_sample().make();
  const int32_t past = tokenizer.vocab_size();
  CHECK_THROWS_WITH_AS(tokenizer.decode(std::vector{past}), doctest::Contains("token id"), Error);
  CHECK_THROWS_AS(tokenizer.decode(std::vector{-1}), Error);
  CHECK_THROWS_AS(StreamDecoder(tokenizer).push(past), Error);
  for (const int32_t id : {past, past + 100000, -1}) { // logit rows may exceed the vocabulary
    CHECK(tokenizer.piece(id).empty());
    CHECK_FALSE(tokenizer.is_eog(id));
  }
}

TEST_CASE("long runs of anything end") {
  std::string letters;
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) letters += static_cast<char>('a' + random() % 26);
  for (const TokenSample& sample : all_samples()) {
    const Tokenizer tokenizer = sample.make();
    for (const char* unit : {"a", " ", "\n", "0", "\U0001F600", "\u0301", "'", "\xF0", " \n", ""}) {
      std::string text = *unit ? "" : letters;
      while (text.size() < 100'000) text += unit;
      CAPTURE(tokenizer.model());
      CAPTURE(tokenizer.pretokenizer());
      CAPTURE(unit);
      const tests::Guard guard("the tokens of a long run of \"" + std::string(unit) + "\"");
      const auto ids = tokenizer.encode(text);
      if (tokenizer.model() != "t5" || *unit != '\xF0') CHECK(tokenizer.decode(ids) == text);
    }
  }
}
