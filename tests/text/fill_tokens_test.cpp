#include "text/fill/fill_tokens.h"

#include "core/error.h"
#include "support/metadata_file.h"
#include "token_samples.h"

#include <doctest/doctest.h>

using namespace ridge;
using tests::TokenSample;
using text::FillText;
using text::FillTokens;
using text::Tokenizer;
using text::TokenKind;
using Ids = std::vector<int32_t>;

namespace {

struct Code {
  TokenSample sample = tests::byte_level_sample();
  int32_t prefix = sample.add("<|fim_prefix|>", TokenKind::control);
  int32_t suffix = sample.add("<|fim_suffix|>", TokenKind::control);
  int32_t middle = sample.add("<|fim_middle|>", TokenKind::control);
  int32_t repository = sample.add("<|repo_name|>", TokenKind::control);
  int32_t file = sample.add("<|file_sep|>", TokenKind::control);
};

std::string shown(const Tokenizer& tokenizer, const Ids& prompt) {
  return tokenizer.decode(prompt, {.render_special = true});
}

FillText text_of(const Tokenizer& tokenizer, const char* prefix, const char* suffix, const char* begun = "") {
  return {tokenizer.encode(prefix), tokenizer.encode(suffix), tokenizer.encode(begun), {}};
}

} // namespace

TEST_CASE("the marks are those that the file names, else those that models are known to have") {
  struct Family {
    const char *prefix, *suffix, *middle;
  };
  for (const auto& [prefix, suffix, middle] :
       {Family{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        Family{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        Family{"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>", "<\uFF5Cfim\u2581end\uFF5C>"},
        Family{"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"}}) {
    CAPTURE(prefix);
    TokenSample sample = tests::byte_level_sample();
    CHECK_FALSE(text::find_fill_tokens(sample.make()).complete());
    const int32_t first = sample.add(prefix, TokenKind::control);
    sample.add(suffix, TokenKind::control);
    CHECK_FALSE(text::find_fill_tokens(sample.make()).complete());
    sample.add(middle, TokenKind::control);
    const FillTokens tokens = text::find_fill_tokens(sample.make());
    CHECK(tokens.complete());
    CHECK(tokens.prefix == first);
    CHECK(tokens.suffix == first + 1);
    CHECK(tokens.middle == first + 2);
    CHECK(tokens.file == -1);
  }
  Code code;
  code.sample.data.special.fim_middle = code.prefix;
  CHECK(text::find_fill_tokens(code.sample.make()).middle == code.prefix);
}

TEST_CASE("the keys of files for the marks are read, older ones too") {
  for (const bool older : {false, true}) {
    gguf::Metadata metadata;
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "d"});
    metadata.set(older ? "tokenizer.ggml.prefix_token_id" : "tokenizer.ggml.fim_pre_token_id", uint32_t{1});
    metadata.set(older ? "tokenizer.ggml.suffix_token_id" : "tokenizer.ggml.fim_suf_token_id", uint32_t{2});
    metadata.set(older ? "tokenizer.ggml.middle_token_id" : "tokenizer.ggml.fim_mid_token_id", uint32_t{9});
    const gguf::File file = tests::file_of(metadata);
    const text::TokenizerData data = text::TokenizerData::from_file(file);
    CHECK(data.special.fim_prefix == 1);
    CHECK(data.special.fim_suffix == 2);
    CHECK(data.special.fim_middle == -1); // no such token
    CHECK(data.warnings.size() == 1);
  }
}

TEST_CASE("a prompt to fill in has its parts behind their marks, other files in front") {
  Code code;
  const Tokenizer tokenizer = code.sample.make();
  const FillTokens tokens = text::find_fill_tokens(tokenizer);
  FillText text = text_of(tokenizer, "low", "lower", "er");
  CHECK(shown(tokenizer, text::fill_prompt(tokenizer, tokens, text, 1000)) ==
        "<|fim_prefix|>lower<|fim_suffix|>lower<|fim_middle|>");
  text.files = {{"a.py", "aa"}, {"b.py", "12"}};
  CHECK(shown(tokenizer, text::fill_prompt(tokenizer, tokens, text, 1000)) ==
        "<|repo_name|>myproject\n<|file_sep|>a.py\naa<|file_sep|>b.py\n12<|file_sep|>filename\n"
        "<|fim_prefix|>lower<|fim_suffix|>lower<|fim_middle|>");
  FillTokens plain = tokens;
  plain.repository = plain.file = -1;
  CHECK(shown(tokenizer, text::fill_prompt(tokenizer, plain, text, 1000)) ==
        "\n\n--- snippet ---\n\naa\n\n--- snippet ---\n\n12<|fim_prefix|>lower<|fim_suffix|>lower<|fim_middle|>");
}

TEST_CASE("what is far from the gap goes where there is no room, other files first") {
  Code code;
  const Tokenizer tokenizer = code.sample.make();
  const FillTokens tokens = text::find_fill_tokens(tokenizer);
  FillText text = text_of(tokenizer, "abcdefgh", "stuvwxyz", "!");
  text.files = {{"f", "zzzz"}};
  const auto prompt = [&](int64_t most) {
    const Ids ids = text::fill_prompt(tokenizer, tokens, text, most);
    CHECK(std::ssize(ids) <= most);
    return shown(tokenizer, ids);
  };
  CHECK(prompt(20) == "<|fim_prefix|>abcdefgh!<|fim_suffix|>stuvwxyz<|fim_middle|>");
  CHECK(prompt(22).ends_with("e\n<|fim_prefix|>abcdefgh!<|fim_suffix|>stuvwxyz<|fim_middle|>"));
  CHECK(prompt(16) == "<|fim_prefix|>abcdefgh!<|fim_suffix|>stuv<|fim_middle|>");
  CHECK(prompt(12) == "<|fim_prefix|>cdefgh!<|fim_suffix|>st<|fim_middle|>");
  CHECK(prompt(4) == "<|fim_prefix|>!<|fim_suffix|><|fim_middle|>");
  CHECK_THROWS_WITH_AS(prompt(3), doctest::Contains("do not fit"), Error);
}

TEST_CASE("a model's begin of texts stands in front of all") {
  Code code;
  code.sample.data.special.bos = code.sample.data.special.eos;
  const Tokenizer tokenizer = code.sample.make();
  REQUIRE(tokenizer.add_bos());
  FillText text = text_of(tokenizer, "low", "");
  text.files = {{"f", "aa"}};
  const Ids ids = text::fill_prompt(tokenizer, text::find_fill_tokens(tokenizer), text, 100);
  CHECK(ids.front() == tokenizer.bos());
  CHECK(std::ranges::count(ids, tokenizer.bos()) == 1);
}
