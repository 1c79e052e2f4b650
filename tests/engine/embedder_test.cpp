// Pooling and embeddings.
#include "core/error.h"
#include "engine/embedder.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ridge;
using engine::Pooling;

TEST_CASE("pooling makes one vector of a text's hidden states, or leaves them") {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 9};
  CHECK(engine::pooled(rows, 2, Pooling::none) == rows);
  CHECK(engine::pooled(rows, 2, Pooling::cls) == std::vector<float>{1, 2});
  CHECK(engine::pooled(rows, 2, Pooling::last) == std::vector<float>{5, 9});
  CHECK(engine::pooled(rows, 2, Pooling::mean) == std::vector<float>{3, 5});
  CHECK(engine::pooling_of_name("cls") == Pooling::cls);
  CHECK_THROWS_WITH_AS(engine::pooling_of_name("max"), "unknown pooling 'max', expected mean, cls, last or none",
                       Error);

  std::vector<float> vector = {3, 4};
  engine::normalize(vector);
  CHECK(vector == std::vector<float>{0.6f, 0.8f});
  std::vector<float> nothing = {0, 0};
  engine::normalize(nothing);
  CHECK(nothing == std::vector<float>{0, 0});
}

namespace {

api::ModelOptions on_cpu(int64_t context = -1) {
  api::ModelOptions options;
  options.device = "cpu";
  options.context = context;
  options.threads = 2;
  return options;
}

} // namespace

TEST_CASE("a decoder embeds a text as its file says, in pieces or at once") {
  const tests::TemporaryFolder folder;
  tests::TinyModel tiny;
  tiny.further.set("llama.pooling_type", uint32_t{3});
  tiny.write(folder / "tiny.gguf");
  const auto open = [&] { return engine::open_model(folder / "tiny.gguf", {}, models::Ending::hidden); };
  api::ModelOptions options = on_cpu();
  engine::Embedder embedder(open(), options, {.exact = true});
  CHECK(engine::is_embedding_model(embedder.model().file, embedder.model().program));
  CHECK(embedder.pooling() == Pooling::last);
  CHECK(embedder.width() == 64);
  const std::vector<int32_t> tokens = embedder.tokens_of("the rain in spain", false);
  const std::vector<float> vector = embedder.embed(tokens);
  REQUIRE(vector.size() == 64);
  double squares = 0;
  for (const float x : vector) squares += x * x;
  CHECK(squares == doctest::Approx(1));

  options.ubatch = 3;
  engine::Embedder in_pieces(open(), options, {.pooling = "none", .exact = true});
  const std::vector<float> rows = in_pieces.embed(tokens);
  REQUIRE(rows.size() == 64 * tokens.size());
  std::vector<float> last(rows.end() - 64, rows.end());
  engine::normalize(last);
  for (size_t i = 0; i < 64; ++i) CHECK(last[i] == doctest::Approx(vector[i]));
  CHECK_THROWS_WITH_AS(embedder.embed({}), "a text without tokens has no embedding", Error);
  CHECK_THROWS_AS(embedder.embed(std::vector<int32_t>{70000}), Error);
}

TEST_CASE("a text that does not fit the context is refused, or truncated on request") {
  const tests::TemporaryFolder folder;
  tests::TinyModel tiny;
  tiny.further.set("llama.attention.causal", false);
  tiny.write(folder / "tiny.gguf");
  engine::Embedder embedder(engine::open_model(folder / "tiny.gguf", {}, models::Ending::hidden), on_cpu(4), {});
  CHECK(embedder.pooling() == Pooling::mean);
  CHECK_THROWS_WITH_AS(embedder.tokens_of("the rain", false),
                       "the text has 9 tokens, but the context holds 4: raise -c, or truncate the text", Error);
  const std::vector<int32_t> tokens = embedder.tokens_of("the rain", true);
  CHECK(tokens.size() == 4);
  CHECK(embedder.embed(tokens).size() == 64);
  CHECK_THROWS_AS(embedder.embed(std::vector<int32_t>(5, 7)), Error);

  CHECK_THROWS_WITH_AS(engine::open_model(folder / "tiny.gguf"),
                       doctest::Contains("a llama model only embeds texts; use ridge embed"), Error);
}

TEST_CASE("a file's pooling type is one of those known") {
  const tests::TemporaryFolder folder;
  for (const uint32_t type : {4u, 9u}) {
    tests::TinyModel tiny;
    tiny.further.set("llama.pooling_type", type);
    tiny.write(folder / "tiny.gguf");
    const gguf::File file = gguf::File::open(folder / "tiny.gguf");
    CHECK_THROWS_AS(engine::pooling_of_file(file), Error);
  }
}
