// Embedding routes, all formats.
#include "support/http/models_endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include "engine/embedder.h"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>

using namespace ridge;
using server::Json;

namespace {

constexpr int64_t kContext = 32;

// "writer" generates, "vectors" embeds.
struct WriterAndVectors {
  WriterAndVectors() {
    tests::TinyModel().write(folder / "writer.gguf");
    tests::TinyModel tiny;
    tiny.further.set("llama.pooling_type", uint32_t{1});
    tiny.write(folder / "vectors.gguf");
  }
  tests::TemporaryFolder folder;
};

struct EmbeddingEndpoint : WriterAndVectors, tests::ModelsEndpoint {
  EmbeddingEndpoint() : tests::ModelsEndpoint(folder.path(), kContext, "vectors") {}
};

void check_same(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
}

std::vector<float> from_base64(const std::string& text) {
  const auto digit = [](char c) -> uint32_t {
    return c >= 'a' ? c - 'a' + 26 : c >= 'A' ? c - 'A' : c >= '0' ? c - '0' + 52 : c == '+' ? 62 : 63;
  };
  std::vector<uint8_t> bytes;
  for (size_t at = 0; at + 4 <= text.size(); at += 4) {
    uint32_t group = 0;
    for (size_t i = 0; i < 4; ++i) group = group << 6 | (text[at + i] == '=' ? 0 : digit(text[at + i]));
    for (size_t i = 0; i < 3; ++i)
      if (text[at + i + 1] != '=') bytes.push_back(static_cast<uint8_t>(group >> (16 - 8 * i)));
  }
  std::vector<float> vector;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4)
    vector.push_back(std::bit_cast<float>(static_cast<uint32_t>(bytes[at]) | bytes[at + 1] << 8 | bytes[at + 2] << 16 |
                                          static_cast<uint32_t>(bytes[at + 3]) << 24));
  return vector;
}

} // namespace

TEST_CASE("embeddings over HTTP are the engine's, of texts and of tokens, in every form") {
  const EmbeddingEndpoint endpoint;
  engine::Embedder embedder(engine::open_model(endpoint.folder / "vectors.gguf", {}, models::Ending::hidden),
                            tests::one_thread(kContext).model, {});
  const std::vector<std::string> texts = {"the rain", "in spain"};
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> expected;
  for (const std::string& text : texts) {
    tokens.push_back(embedder.tokens_of(text, false));
    expected.push_back(embedder.embed(tokens.back()));
  }
  const auto check_all = [&](const Json& reply) {
    REQUIRE(reply["data"].size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(reply["data"][i]["index"] == i);
      check_same(reply["data"][i]["embedding"], expected[i]);
    }
    CHECK(reply["usage"]["prompt_tokens"] == tokens[0].size() + tokens[1].size());
    CHECK(reply["model"] == "vectors");
  };
  check_all(endpoint.post("/v1/embeddings", {{"input", texts}}));
  check_all(endpoint.post("/v1/embeddings", {{"input", tokens}, {"encoding_format", "float"}}));
  check_same(endpoint.post("/v1/embeddings", {{"input", texts[0]}})["data"][0]["embedding"], expected[0]);
  check_same(endpoint.post("/v1/embeddings", {{"input", tokens[1]}})["data"][0]["embedding"], expected[1]);
  const Json packed = endpoint.post("/v1/embeddings", {{"input", texts}, {"encoding_format", "base64"}})["data"];
  for (size_t i = 0; i < 2; ++i) check_same(from_base64(packed[i]["embedding"]), expected[i]);

  std::vector<float> shorter(expected[0].begin(), expected[0].begin() + 7);
  engine::normalize(shorter);
  const Json cut =
      endpoint.post("/v1/embeddings", {{"input", texts[0]}, {"dimensions", 7}, {"encoding_format", "base64"}});
  check_same(from_base64(cut["data"][0]["embedding"]), shorter);

  const Json ollama = endpoint.post("/api/embed", {{"input", texts}});
  for (size_t i = 0; i < 2; ++i) check_same(ollama["embeddings"][i], expected[i]);
  CHECK(ollama["prompt_eval_count"] == tokens[0].size() + tokens[1].size());
  check_same(endpoint.post("/api/embed", {{"input", texts[0]}, {"dimensions", 7}})["embeddings"][0], shorter);
  check_same(endpoint.post("/api/embeddings", {{"prompt", texts[1]}})["embedding"], expected[1]);
  CHECK(tests::HttpClient(endpoint.server.port())
            .get("/metrics")
            .body.find("\nridge_requests_total{model=\"vectors\"} 9\n") != std::string::npos);
}

TEST_CASE("what cannot be embedded is refused with the place") {
  const EmbeddingEndpoint endpoint;
  const auto error = [&](const Json& body) {
    return endpoint.post("/v1/embeddings", body, 400)["error"]["message"].get<std::string>();
  };
  CHECK(error({}) == "input is missing");
  CHECK(error({{"input", 3}}).starts_with("input: expected a string or a list"));
  CHECK(error({{"input", Json::array()}}).starts_with("input: expected a string or a list"));
  CHECK(error({{"input", {"a", 3}}}) == "input[1]: expected a string");
  CHECK(error({{"input", {1, "a"}}}) == "input: expected a list of token ids");
  CHECK(error({{"input", {70000}}}) == "input: 70000 is not a token of this vocabulary");
  CHECK(error({{"input", {Json::array()}}}) == "input[0]: a text without tokens has no embedding");
  CHECK(error({{"input", "a"}, {"dimensions", 65}}) ==
        "dimensions: vectors has vectors of 64 elements, but 65 were requested");
  CHECK(error({{"input", "a"}, {"dimensions", 0}}).starts_with("dimensions: expected a whole number"));
  CHECK(error({{"input", "a"}, {"encoding_format", "hex"}}) == "encoding_format: expected float or base64");
  const std::string longer(100, 'x');
  CHECK(error({{"input", longer}}).find("the context holds 32") != std::string::npos);
  CHECK(
      error({{"input", std::vector<int32_t>(33, 5)}}).find("maximum context length is 32 tokens. The prompt has 33") !=
      std::string::npos);
  CHECK(endpoint.post("/api/embed", {{"input", longer}})["prompt_eval_count"] == 32);
  CHECK(endpoint.post("/api/embed", {{"input", longer}, {"truncate", false}}, 400).contains("error"));
}

TEST_CASE("models say whether they write or embed, and are asked for nothing else") {
  const EmbeddingEndpoint endpoint;
  const auto check_lists = [&] {
    const Json tags = endpoint.get("/api/tags");
    for (const Json& model : tags["models"])
      CHECK(model["capabilities"] ==
            (model["name"] == "vectors" ? Json{"embedding"} : Json(std::vector{"completion", "tools"})));
  };
  check_lists();
  CHECK(endpoint.get("/api/ps")["models"].empty());
  const Json shown = endpoint.post("/api/show", {});
  CHECK(shown["capabilities"] == Json{"embedding"});
  CHECK(shown["model_info"]["llama.embedding_length"] == 64);
  CHECK(endpoint.post("/api/show", {{"model", "writer"}})["capabilities"][0] == "completion");
  check_lists();

  const Json chat = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 2}};
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat"}) {
    const Json error = endpoint.post(path, chat, 400)["error"];
    const std::string message = error.is_string() ? error : error["message"];
    CHECK(message.starts_with("the model vectors only embeds texts"));
  }
  CHECK(endpoint.post("/v1/embeddings", {{"model", "writer"}, {"input", "a"}}, 400)["error"]["message"] ==
        "the model writer generates text: this needs an embedding model");
  CHECK(endpoint.post("/tokenize", {{"content", "the rain"}})["tokens"].size() > 1);
  CHECK(endpoint.get("/props?model=vectors")["n_ctx"] == 32);
}
