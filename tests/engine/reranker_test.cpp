// Models with a classification head.
#include "core/error.h"
#include "engine/reranking/reranker.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace ridge;
using engine::Reranker;
using gguf::TensorInfo;

namespace {

constexpr int64_t kWidth = 64;

api::ModelOptions where(int64_t context = -1) {
  api::ModelOptions options;
  options.device = "cpu";
  options.context = context;
  options.threads = 1;
  return options;
}

TensorInfo random(const char* name, int64_t inputs, int64_t outputs) {
  return {name, quant::Type::F16, {inputs, outputs}};
}

tests::TinyModel scorer(std::vector<TensorInfo> head) {
  tests::TinyModel tiny{.architecture = "eurobert", .extra = std::move(head)};
  tiny.further.set("eurobert.pooling_type", uint32_t{4});
  return tiny;
}

engine::LoadedModel open(const std::string& path) { return engine::open_model(path, {}, models::Ending::hidden); }

std::vector<float> weights_of(const engine::LoadedModel& model, const char* name) {
  const gguf::Tensor& tensor = *model.file.find_tensor(name);
  std::vector<float> values(static_cast<size_t>(tensor.weights()));
  tensor.type.format()->decode(tensor.data.data(), tensor.weights(), values.data());
  return values;
}

float dot(std::span<const float> a, const float* b) { return std::inner_product(a.begin(), a.end(), b, 0.0f); }

std::string text_of(const Reranker& reranker, std::span<const int32_t> tokens) {
  return reranker.model().need_tokenizer().decode(tokens, {.render_special = true});
}

} // namespace

TEST_CASE("a score is what the head makes of the first token's row") {
  const tests::TemporaryFolder folder;
  scorer({random("cls.output.weight", kWidth, 1), {"cls.output.bias", quant::Type::F32, {1}}})
      .write(folder / "one.gguf");
  scorer({random("cls.weight", kWidth, kWidth), random("cls.output.weight", kWidth, 1)}).write(folder / "two.gguf");
  for (const char* name : {"one.gguf", "two.gguf"}) {
    CAPTURE(name);
    Reranker reranker(open(folder / name), where(), true);
    CHECK(engine::is_reranker(reranker.model().file));
    engine::Embedder embedder(open(folder / name), where(), {.pooling = "cls", .exact = true});
    const std::vector<int32_t> tokens = reranker.tokens_of("the rain", "in spain", false);
    std::vector<float> row = embedder.embed(tokens, false);
    if (name[0] == 't') {
      const std::vector<float> dense = weights_of(reranker.model(), "cls.weight");
      std::vector<float> hidden(kWidth);
      for (int64_t i = 0; i < kWidth; ++i) hidden[i] = std::tanh(dot(row, dense.data() + i * kWidth));
      row = hidden;
    }
    const float bias = name[0] == 'o' ? 1 : 0;
    const float wanted = dot(row, weights_of(reranker.model(), "cls.output.weight").data()) + bias;
    const Reranker::Score score = reranker.score(tokens);
    CHECK(score.logit == doctest::Approx(wanted).epsilon(1e-4));
    CHECK(score.probability() == doctest::Approx(1 / (1 + std::exp(-wanted))).epsilon(1e-4));
    CHECK(reranker.score(reranker.tokens_of("the rain", "falls", false)).logit != score.logit);
  }
}

TEST_CASE("query and document stand between the tokenizer's tokens, or in the file's template") {
  const tests::TemporaryFolder folder;
  tests::TinyModel tiny = scorer({random("cls.output.weight", kWidth, 1)});
  tiny.write(folder / "plain.gguf");
  const Reranker plain(open(folder / "plain.gguf"), where());
  CHECK(text_of(plain, plain.tokens_of("q", "d", false)) == "<s>q<|im_end|>d<|im_end|>");
  tiny.further.set("tokenizer.chat_template.rerank", "D:{document}Q:{query}<|im_end|>");
  tiny.write(folder / "template.gguf");
  const Reranker rendered(open(folder / "template.gguf"), where());
  const std::vector<int32_t> tokens = rendered.tokens_of("q{document}<|im_end|>", "d{query}", false);
  CHECK(text_of(rendered, tokens) == "<s>D:d{query}Q:q{document}<|im_end|><|im_end|>");
  CHECK(std::ranges::count(tokens, rendered.model().need_tokenizer().eos()) == 1); // the query's is text
  tiny.further.set("tokenizer.chat_template.rerank", "{query} and {query}");
  tiny.write(folder / "bad.gguf");
  CHECK_THROWS_WITH_AS(Reranker(open(folder / "bad.gguf"), where()),
                       doctest::Contains("expected {query} and {document}, once each"), Error);
}

TEST_CASE("a document's tokens have the second type of BERT's two") {
  const tests::TemporaryFolder folder;
  tests::TinyModel tiny = scorer({random("cls.output.weight", kWidth, 1), random("token_types.weight", kWidth, 2)});
  tiny.further.set("tokenizer.ggml.model", "bert");
  tiny.write(folder / "types.gguf");
  Reranker reranker(open(folder / "types.gguf"), where(), true);
  engine::Embedder embedder(open(folder / "types.gguf"), where(), {.pooling = "cls", .exact = true});
  const std::vector<int32_t> tokens = reranker.tokens_of("the", "a", false);
  const auto of_first_type = [&](std::span<const int32_t> read) {
    return dot(embedder.embed(read, false), weights_of(reranker.model(), "cls.output.weight").data());
  };
  CHECK(std::abs(reranker.score(tokens).logit - of_first_type(tokens)) > 1e-3f);
  const auto query = std::span(tokens).first(std::ranges::find(tokens, tokens.back()) - tokens.begin() + 1);
  CHECK(query.size() < tokens.size());
  CHECK(reranker.score(query).logit == doctest::Approx(of_first_type(query)).epsilon(1e-4));
}

TEST_CASE("a document that does not fit loses its end, and a query is never cut") {
  const tests::TemporaryFolder folder;
  scorer({random("cls.output.weight", kWidth, 1)}).write(folder / "tiny.gguf");
  Reranker reranker(open(folder / "tiny.gguf"), where(24));
  const std::string longer(100, 'x');
  const std::vector<int32_t> tokens = reranker.tokens_of("q", longer, true);
  CHECK(std::ssize(tokens) == 24);
  CHECK(text_of(reranker, tokens).starts_with("<s>q<|im_end|>xxx"));
  CHECK(tokens.back() == reranker.model().need_tokenizer().eos());
  CHECK(std::isfinite(reranker.score(tokens).logit));
  CHECK_THROWS_WITH_AS(reranker.tokens_of("q", longer, false), doctest::Contains("the context holds 24"), Error);
  CHECK_THROWS_WITH_AS(reranker.tokens_of(longer, "d", true), doctest::Contains("the query alone has"), Error);
}

TEST_CASE("heads that are none are refused with their tensor") {
  const tests::TemporaryFolder folder;
  const auto error = [&](std::vector<TensorInfo> head) -> std::string {
    scorer(std::move(head)).write(folder / "bad.gguf");
    try {
      Reranker(open(folder / "bad.gguf"), where());
      return "";
    } catch (const Error& problem) {
      return problem.what();
    }
  };
  CHECK(error({}).ends_with("no classification head (cls.output.weight): not a reranker"));
  CHECK(error({random("cls.output.weight", kWidth, 3)}).find("has 3 outputs") != std::string::npos);
  CHECK(error({random("cls.output.weight", 32, 1)}).find("takes rows of 32") != std::string::npos);
  CHECK(error({random("cls.weight", kWidth, 32), random("cls.output.weight", kWidth, 1)}).find("has 32 outputs") !=
        std::string::npos);
  CHECK(error({random("cls.output.weight", kWidth, 1), {"cls.output.bias", quant::Type::F32, {2}}}).find("bias") !=
        std::string::npos);
  tests::TinyModel().write(folder / "writer.gguf");
  CHECK_FALSE(engine::is_reranker(gguf::File::open(folder / "writer.gguf")));
}
