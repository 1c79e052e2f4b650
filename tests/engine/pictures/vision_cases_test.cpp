// Tiny models that read pictures, of every projector, against chunks, embeddings and logits of another implementation.
#include "core/error.h"

#include "support/numerics.h"
#include "support/recipes/vision_runs.h"

#include <cstdlib>

using namespace ridge;

namespace {

constexpr double kLeastBound = 5e-6;

void check_chunks(const engine::PicturePrompt& prompt, const nlohmann::ordered_json& chunks, bool mrope) {
  int64_t at = 0;
  size_t pictures = 0;
  for (const auto& chunk : chunks) {
    if (mrope) CHECK(prompt.pictures.axes(at)[0] == chunk["position"].get<int32_t>());
    if (chunk["kind"] == "text") {
      const std::vector<int32_t> ids = chunk["ids"];
      REQUIRE(at + std::ssize(ids) <= std::ssize(prompt.tokens));
      CHECK(std::vector(prompt.tokens.begin() + at, prompt.tokens.begin() + at + std::ssize(ids)) == ids);
      at += std::ssize(ids);
      continue;
    }
    REQUIRE(pictures < prompt.pictures.places().size());
    const engine::TextPictures::Place& place = prompt.pictures.places()[pictures++];
    CHECK(place.first == at);
    CHECK(place.tile->tokens == chunk["tokens"].get<int64_t>());
    CHECK(place.tile->sees_ahead == chunk["non_causal"].get<bool>());
    if (chunk.contains("rope"))
      for (int64_t i = 0; i < place.tile->tokens; ++i)
        for (int axis = 0; axis < 3; ++axis)
          CHECK(prompt.pictures.axes(at + i)[axis] == chunk["rope"][i][axis].get<int32_t>());
    at = place.end();
  }
  CHECK(at == std::ssize(prompt.tokens));
  CHECK(pictures == prompt.pictures.places().size());
}

void check_case(const std::string& name) {
  CAPTURE(name);
  const tests::VisionCase c(name);
  tests::OpenedVision opened(c);
  opened.reader.check_fits(opened.program, "model.gguf");
  CHECK(opened.reader.row_width() == c.count("n_embd"));
  const engine::PicturePrompt prompt = opened.prompt();
  check_chunks(prompt, c.document["chunks"], c.document["mrope"]);
  std::vector<float> rows;
  for (const engine::TextPictures::Place& place : prompt.pictures.places())
    rows.insert(rows.end(), place.tile->rows.begin(), place.tile->rows.end());
  const std::vector<float> embeddings = c.embeddings();
  REQUIRE(rows.size() == embeddings.size());
  CHECK(opened.reader.count_tokens(c.picture()) == c.count("tokens"));
  const double error = tests::nmse(rows, embeddings);
  CHECK(error <= std::max(kLeastBound, 5 * c.spread("spread")));
  const std::vector<float> golden = c.logits(),
                           at_once = tests::vision_logits(opened, prompt, std::ssize(prompt.tokens));
  REQUIRE(at_once.size() == golden.size());
  const double bound = std::max(kLeastBound, 5 * c.spread("spread_logits"));
  const double logits_error = tests::nmse(at_once, golden);
  CHECK(logits_error <= bound);
  CHECK(tests::nmse(tests::vision_logits(opened, prompt, 3), golden) <= bound);
  MESSAGE(name, ": NMSE of embeddings ", error, ", of logits ", logits_error);
}

} // namespace

TEST_CASE("tiny models of every projector have the reference's chunks, embeddings and logits") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::known_vision_cases();
  CHECK(names.size() >= models::vision::projector_table().size());
  const char* only = std::getenv("RIDGE_TEST_CASE"); // those with this in their names
  for (const std::string& name : names)
    if (!only || name.find(only) != std::string::npos) {
      try {
        check_case(name);
      } catch (const core::Error& error) {
        FAIL_CHECK(name, ": ", error.what());
      }
    }
}

TEST_CASE("docs/images.md shows every projector as projectors.def has it") {
  const std::string docs = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/images.md");
  CHECK(docs.find(models::vision::projectors_as_markdown()) != std::string::npos);
}
