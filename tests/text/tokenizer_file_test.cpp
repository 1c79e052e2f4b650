#include "core/error.h"
#include "support/metadata_file.h"
#include "tests/text/token_samples.h"

#include <doctest/doctest.h>

#include <limits>

using namespace ridge;
using tests::file_of;
using tests::TokenSample;
using text::Tokenizer;

namespace {

gguf::Metadata metadata_of(const TokenSample& sample) {
  gguf::Metadata metadata;
  metadata.set("tokenizer.ggml.model", sample.data.model);
  if (!sample.data.pre.empty()) metadata.set("tokenizer.ggml.pre", sample.data.pre);
  metadata.set("tokenizer.ggml.tokens", sample.data.tokens);
  metadata.set("tokenizer.ggml.scores", sample.data.scores);
  std::vector<int32_t> kinds;
  for (const auto kind : sample.data.kinds) kinds.push_back(static_cast<int32_t>(kind));
  metadata.set("tokenizer.ggml.token_type", kinds);
  if (!sample.data.merges.empty()) metadata.set("tokenizer.ggml.merges", sample.data.merges);
  return metadata;
}

void expect_refused(const gguf::Metadata& metadata, const char* key) {
  const gguf::File file = file_of(metadata);
  CAPTURE(key);
  CHECK_THROWS_WITH_AS(Tokenizer::from_file(file), doctest::Contains(key), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_file(file), doctest::Contains("memory.gguf"), Error);
}

} // namespace

TEST_CASE("a tokenizer read from a file is the one made from the data") {
  for (const TokenSample& sample :
       {tests::byte_level_sample("gpt-2"), tests::sentencepiece_sample("llama"), tests::sentencepiece_sample("t5")}) {
    const auto from_file = Tokenizer::from_file(file_of(metadata_of(sample)));
    const Tokenizer made = sample.make();
    CHECK(from_file->encode("lower low \u00e9\n12") == made.encode("lower low \u00e9\n12"));
    CHECK(from_file->model() == made.model());
    CHECK(from_file->pretokenizer() == made.pretokenizer());
  }
}

TEST_CASE("flags and special ids are read from the file") {
  gguf::Metadata metadata = metadata_of(tests::sentencepiece_sample("llama"));
  metadata.set("tokenizer.ggml.add_bos_token", false);
  metadata.set("tokenizer.ggml.add_eos_token", true);
  metadata.set("tokenizer.ggml.add_space_prefix", false);
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{260});
  metadata.set("tokenizer.ggml.eot_token_id", uint32_t{261});
  const auto tokenizer = Tokenizer::from_file(file_of(metadata));
  CHECK_FALSE(tokenizer->add_bos());
  CHECK(tokenizer->add_eos());
  CHECK_FALSE(tokenizer->add_space_prefix());
  CHECK(tokenizer->eos() == 260);
  CHECK(tokenizer->is_eog(261));
  CHECK(tokenizer->bos() == 1); // default
}

TEST_CASE("special ids outside the vocabulary are ignored with a warning, and -1 means none") {
  gguf::Metadata metadata = metadata_of(tests::byte_level_sample());
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1'000'000});
  metadata.set("tokenizer.ggml.padding_token_id", uint32_t{0xFFFFFFFF});
  metadata.set("tokenizer.ggml.eos_token_id", int32_t{-1});
  const auto tokenizer = Tokenizer::from_file(file_of(metadata));
  CHECK(tokenizer->bos() == -1);
  CHECK(tokenizer->eos() == -1);
  REQUIRE(tokenizer->warnings().size() == 1);
  CHECK(tokenizer->warnings()[0].find("bos_token_id") != std::string::npos);
}

TEST_CASE("vocabularies without token types still have byte tokens, and odd types count as ordinary") {
  gguf::Metadata metadata = metadata_of(tests::sentencepiece_sample("llama"));
  metadata.erase("tokenizer.ggml.token_type");
  const auto tokenizer = Tokenizer::from_file(file_of(metadata));
  CHECK(tokenizer->decode(tokenizer->encode("\u00fc")) == "\u00fc");
  metadata.set("tokenizer.ggml.token_type", std::vector<int32_t>(tokenizer->vocab_size(), 99));
  CHECK(Tokenizer::from_file(file_of(metadata))->kind(5) == text::TokenKind::normal);
}

TEST_CASE("empty and repeated tokens are harmless: the first of equal ones is meant") {
  TokenSample sample = tests::byte_level_sample("qwen2");
  const int32_t low = sample.make().find("low");
  sample.add("");
  sample.add("low");
  const auto tokenizer = Tokenizer::from_file(file_of(metadata_of(sample)));
  CHECK(tokenizer->find("") == -1);
  CHECK(tokenizer->encode("low") == std::vector{low});
  CHECK(tokenizer->decode(std::vector{tokenizer->vocab_size() - 1, tokenizer->vocab_size() - 2}) == "low");
}

TEST_CASE("a file without a tokenizer, or with one of an unknown model, is refused and the known models are named") {
  expect_refused({}, "tokenizer.ggml.model");
  gguf::Metadata metadata = metadata_of(tests::byte_level_sample());
  metadata.set("tokenizer.ggml.model", "plamo9");
  expect_refused(metadata, "llama, gpt2, t5");
}

TEST_CASE("keys of the wrong type, length or content are refused by name") {
  const auto refused = [](const char* model, const char* key, gguf::OwnedValue value) {
    gguf::Metadata metadata = metadata_of(std::string_view(model) == "gpt2" ? tests::byte_level_sample()
                                                                            : tests::sentencepiece_sample(model));
    metadata.set(key, std::move(value));
    expect_refused(metadata, key);
  };
  const auto tokens = tests::sentencepiece_sample("llama").data.tokens.size();
  std::vector<float> scores(tokens, -1);
  scores[7] = std::numeric_limits<float>::quiet_NaN();
  for (const char* model : {"llama", "t5"}) {
    refused(model, "tokenizer.ggml.scores", scores);
    refused(model, "tokenizer.ggml.scores", std::vector<float>(tokens - 1));
    refused(model, "tokenizer.ggml.scores", std::vector<float>(tokens + 1));
    refused(model, "tokenizer.ggml.scores", std::vector<float>{});
    refused(model, "tokenizer.ggml.scores", std::vector<std::string>(tokens, "x"));
    refused(model, "tokenizer.ggml.scores", 1.0f);
  }
  refused("t5", "tokenizer.ggml.precompiled_charsmap", std::vector<float>(100));
  refused("t5", "tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{1, 2, 3});
  for (const char* model : {"gpt2", "llama"}) {
    refused(model, "tokenizer.ggml.model", uint32_t{1});
    refused(model, "tokenizer.ggml.tokens", "text");
    refused(model, "tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
    refused(model, "tokenizer.ggml.token_type", std::vector<int32_t>{1});
    refused(model, "tokenizer.ggml.token_type", std::vector<float>(tokens));
    refused(model, "tokenizer.ggml.bos_token_id", "one");
    refused(model, "tokenizer.ggml.add_bos_token", "yes");
  }
  refused("gpt2", "tokenizer.ggml.merges", std::vector<std::string>{"ab"});
  refused("gpt2", "tokenizer.ggml.merges", std::vector<int32_t>{1});
  refused("gpt2", "tokenizer.ggml.eos_token_ids", "one");
}

TEST_CASE("required arrays that are missing are named") {
  gguf::Metadata no_tokens = metadata_of(tests::byte_level_sample());
  no_tokens.erase("tokenizer.ggml.tokens");
  no_tokens.erase("tokenizer.ggml.scores");
  no_tokens.erase("tokenizer.ggml.token_type");
  expect_refused(no_tokens, "tokenizer.ggml.tokens");
  gguf::Metadata no_merges = metadata_of(tests::byte_level_sample());
  no_merges.erase("tokenizer.ggml.merges");
  expect_refused(no_merges, "tokenizer.ggml.merges");
  gguf::Metadata no_scores = metadata_of(tests::sentencepiece_sample("llama"));
  no_scores.erase("tokenizer.ggml.scores");
  expect_refused(no_scores, "tokenizer.ggml.scores");
}
