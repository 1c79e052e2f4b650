// Rerank routes.
#include "engine/reranking/reranker.h"
#include "support/http/models_endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using server::Json;

namespace {

constexpr int64_t kContext = 64;

// "scorer" scores, "writer" generates.
struct Files {
  Files() {
    tests::TinyModel tiny{.architecture = "eurobert",
                          .extra = {{"cls.output.weight", quant::Type::F16, {int64_t{64}, int64_t{1}}}}};
    tiny.further.set("eurobert.pooling_type", uint32_t{4});
    tiny.write(folder / "scorer.gguf");
    tests::TinyModel().write(folder / "writer.gguf");
  }
  tests::TemporaryFolder folder;
};

struct RerankEndpoint : Files, tests::ModelsEndpoint {
  RerankEndpoint() : tests::ModelsEndpoint(folder.path(), kContext, "scorer") {}
};

const std::vector<std::string> kDocuments = {"a cat", "the rain in spain", "x", "numbers 1 2 3"};

} // namespace

TEST_CASE("documents come back in the order of their scores, which are the engine's") {
  const RerankEndpoint endpoint;
  engine::Reranker reranker(engine::open_model(endpoint.folder / "scorer.gguf", {}, models::Ending::hidden),
                            tests::one_thread(kContext).model);
  std::vector<engine::Reranker::Score> scores;
  size_t tokens = 0;
  for (const std::string& document : kDocuments) {
    const std::vector<int32_t> pair = reranker.tokens_of("rain", document, true);
    tokens += pair.size();
    scores.push_back(reranker.score(pair));
  }
  const Json body = {{"query", "rain"}, {"documents", kDocuments}};
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank", "/reranking", "/v1/reranking"}) {
    const Json reply = endpoint.post(path, body);
    CHECK(reply["model"] == "scorer");
    CHECK(reply["usage"]["total_tokens"] == tokens);
    REQUIRE(reply["results"].size() == 4);
    double last = 2;
    for (const Json& result : reply["results"]) {
      const double score = result["relevance_score"];
      CHECK(score <= last);
      CHECK(score == doctest::Approx(scores[result["index"].get<size_t>()].probability()).epsilon(1e-3));
      CHECK_FALSE(result.contains("document"));
      last = score;
    }
  }
  Json chosen = body;
  chosen.update({{"top_n", 2}, {"return_documents", true}, {"raw_scores", true}});
  chosen["documents"][1] = {{"text", kDocuments[1]}};
  const Json reply = endpoint.post("/v1/rerank", chosen);
  REQUIRE(reply["results"].size() == 2);
  for (const Json& result : reply["results"]) {
    const size_t index = result["index"];
    CHECK(result["document"]["text"] == kDocuments[index]);
    CHECK(result["relevance_score"].get<double>() == doctest::Approx(scores[index].logit).epsilon(1e-3));
  }
  const Json plain = endpoint.post("/rerank", {{"query", "rain"}, {"texts", kDocuments}, {"return_text", true}});
  REQUIRE(plain.is_array());
  CHECK(plain[0]["score"].get<double>() >= plain[3]["score"].get<double>());
  CHECK(plain[0]["text"] == kDocuments[plain[0]["index"].get<size_t>()]);

  const Json pairs = endpoint.post("/score", {{"text_1", "rain"}, {"text_2", kDocuments}});
  REQUIRE(pairs["data"].size() == 4);
  for (size_t i = 0; i < 4; ++i)
    CHECK(pairs["data"][i]["score"].get<double>() == doctest::Approx(scores[i].probability()).epsilon(1e-3));
  CHECK(endpoint.post("/v1/score", {{"text_1", {"rain", "sun"}}, {"text_2", {"a", "b"}}})["data"].size() == 2);
}

TEST_CASE("a long document is cut, or refused where that is not wanted") {
  const RerankEndpoint endpoint;
  Json body = {{"query", "q"}, {"documents", {std::string(500, 'y')}}};
  CHECK(endpoint.post("/v1/rerank", body)["usage"]["total_tokens"] == 64);
  body["truncate"] = false;
  CHECK(endpoint.error("/v1/rerank", body).find("the context holds 64") != std::string::npos);
}

TEST_CASE("requests to rank that are malformed, or for another kind of model, are refused") {
  const RerankEndpoint endpoint;
  CHECK(endpoint.error("/v1/rerank", {{"documents", {"a"}}}) == "query is missing");
  CHECK(endpoint.error("/v1/rerank", {{"query", "a"}}) == "documents is missing");
  CHECK(endpoint.error("/v1/rerank", {{"query", ""}, {"documents", {"a"}}}).starts_with("query: expected"));
  CHECK(
      endpoint.error("/v1/rerank", {{"query", "a"}, {"documents", Json::array()}}).starts_with("documents: expected"));
  CHECK(endpoint.error("/v1/rerank", {{"query", "a"}, {"documents", {3}}}).starts_with("documents[0]: expected"));
  CHECK(endpoint.error("/v1/rerank", {{"query", "a"}, {"documents", {{{"t", 1}}}}}) == "documents[0].text is missing");
  CHECK(endpoint.error("/v1/rerank", {{"query", "a"}, {"documents", {"b"}}, {"top_n", 0}}).starts_with("top_n: "));
  CHECK(endpoint.error("/score", {{"text_1", {"a", "b"}}, {"text_2", "c"}}).starts_with("text_1: expected one text"));
  CHECK(endpoint.error("/score", {{"text_1", "a"}}) == "text_2 is missing");
  CHECK(endpoint.error("/v1/rerank", {{"model", "writer"}, {"query", "a"}, {"documents", {"b"}}})
            .find("this needs a reranker") != std::string::npos);
  CHECK(endpoint.error("/v1/completions", {{"prompt", "a"}}).find("use it with /v1/rerank and /v1/score") !=
        std::string::npos);
  CHECK(endpoint.error("/v1/embeddings", {{"input", "a"}}).find("scores texts") != std::string::npos);
}
