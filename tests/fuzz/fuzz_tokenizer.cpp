// Tokenizers. The first byte selects:
//   a text for small vocabularies: decoding restores it, streaming never splits a character;
//   a vocabulary and text: an Error or consistent results;
//   a GGUF file.
#include "core/error.h"
#include "tests/text/token_samples.h"
#include "text/tokenizer/pretokenize.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>

using namespace ridge;
using core::utf8_valid_prefix;
using text::StreamDecoder;
using text::Tokenizer;
using text::TokenKind;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_text(const Tokenizer& tokenizer, const std::string& text, bool gives_back) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
    const std::string back = tokenizer.decode(ids, {.render_special = true});
    if (gives_back) require(back == text);
    StreamDecoder stream(tokenizer, {.render_special = true, .continues = false});
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string part = stream.push(id);
      require(utf8_valid_prefix(part) == part.size());
      streamed += part;
    }
    streamed += stream.finish();
    require(utf8_valid_prefix(streamed) == streamed.size());
    if (utf8_valid_prefix(back) == back.size()) require(streamed == back);
  }
}

const std::deque<Tokenizer>& tokenizers() {
  static const std::deque<Tokenizer> all = [] {
    std::deque<Tokenizer> made;
    for (const auto& family : text::pretokenizer_families()) {
      if (!family.byte_level) continue;
      made.emplace_back(tests::byte_level_sample(family.names.substr(0, family.names.find(' '))).data);
    }
    for (const char* model : {"llama", "t5", "gemma4"}) {
      tests::TokenSample sample = tests::sentencepiece_sample(model);
      if (sample.data.model == "gemma4") sample.merge("l", "o");
      made.emplace_back(sample.data);
    }
    return made;
  }();
  return all;
}

void fuzz_text(FuzzedDataProvider& data) {
  const Tokenizer& tokenizer = tokenizers()[data.ConsumeIntegralInRange<size_t>(0, tokenizers().size() - 1)];
  const std::string text = data.ConsumeRemainingBytesAsString();
  const bool has_mark = tokenizer.add_space_prefix() || tokenizer.model() == "gemma4"; // U+2581 reads as a space there
  check_text(tokenizer, text,
             (tokenizer.model() != "t5" || utf8_valid_prefix(text) == text.size()) &&
                 (!has_mark || text.find(text::kSpaceMark) == std::string::npos));
}

void fuzz_vocabulary(FuzzedDataProvider& data) {
  tests::TokenSample sample;
  sample.data.model = data.PickValueInArray({"llama", "gpt2", "t5", "gemma4", "bert", "rwkv", "plamo2", "other"});
  sample.data.pre = data.PickValueInArray({"llama-bpe", "gpt-2", "deepseek-v3", "", "?"});
  const std::string text = data.ConsumeRandomLengthString(200);
  sample.data.charsmap = sample.keep(data.ConsumeRandomLengthString(200));
  const auto id = [&] { return data.ConsumeIntegralInRange<int32_t>(-1, 3); };
  const size_t tokens = data.ConsumeIntegralInRange<size_t>(0, 40);
  for (size_t i = 0; i < tokens; ++i)
    sample.add(data.ConsumeRandomLengthString(12), static_cast<TokenKind>(data.ConsumeIntegralInRange(1, 6)),
               data.ConsumeFloatingPoint<float>());
  if (tokens > 3) sample.data.special = {.bos = id(), .eos = id(), .unknown = id()};
  if (data.ConsumeBool()) sample.data.kinds.clear();
  if (data.ConsumeBool()) sample.data.scores.clear();
  sample.data.add_space_prefix = data.ConsumeBool();
  sample.data.remove_extra_whitespaces = data.ConsumeBool();
  while (data.remaining_bytes() > 0) sample.data.merges.push_back(sample.keep(data.ConsumeRandomLengthString(12)));
  check_text(sample.make(), text, false);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  try {
    switch (data.ConsumeIntegralInRange(0, 2)) {
    case 0: fuzz_text(data); break;
    case 1: fuzz_vocabulary(data); break;
    default: {
      const std::string image = data.ConsumeRemainingBytesAsString();
      const gguf::File file = gguf::File::from_span(std::as_bytes(std::span(image)), "fuzz");
      check_text(*Tokenizer::from_file(file), image, false);
    }
    }
  } catch (const Error&) {
  }
  return 0;
}
