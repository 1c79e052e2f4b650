// Every encoder against another implementation's chunks, embeddings and logits.
#include "core/error.h"

#include "support/numerics.h"
#include "support/recipes/recipe_runs.h"
#include "support/recipes/vision_runs.h"
#include "support/temporary_folder.h"

#include <cstdlib>

using namespace ridge;

namespace {

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
  const auto [rows, embeddings] = tests::rows_to_compare(c, prompt);
  REQUIRE(rows.size() == embeddings.size());
  CHECK(opened.reader.count_tokens(c.medium()) == c.count("tokens"));
  const double error = tests::nmse(rows, embeddings);
  CHECK(error <= c.bound("spread"));
  if (c.has_wrong_tiles()) return;
  const std::vector<float> golden = c.logits(),
                           at_once = tests::vision_logits(opened, prompt, std::ssize(prompt.tokens));
  REQUIRE(at_once.size() == golden.size());
  const double bound = c.bound("spread_logits");
  const double logits_error = tests::nmse(at_once, golden);
  CHECK(logits_error <= bound);
  CHECK(tests::nmse(tests::vision_logits(opened, prompt, 3), golden) <= bound);
  MESSAGE(name, ": NMSE of embeddings ", error, ", of logits ", logits_error);
}

struct Outputs {
  std::vector<float> embeddings, logits;
  size_t vocab = 0;
  bool chooses = false;
};

Outputs outputs_of(const tests::VisionCase& c, bool exact, quant::Type type) {
  tests::OpenedVision opened(c, exact, type);
  const engine::PicturePrompt prompt = opened.prompt();
  return {tests::rows_of(prompt), tests::vision_logits(opened, prompt, std::ssize(prompt.tokens), exact),
          static_cast<size_t>(opened.program.vocab), tests::chooses(opened.program)};
}

void check_fast(const std::string& name, quant::Type type, const Outputs& wanted) {
  constexpr double kBound = 1e-3, kOtherExperts = 2e-2; // see tests::FastBounds
  CAPTURE(name);
  const Outputs fast = outputs_of(tests::VisionCase(name), false, type);
  const double error = tests::nmse(fast.embeddings, wanted.embeddings),
               logits_error = tests::nmse(fast.logits, wanted.logits);
  CHECK(error <= kBound);
  CHECK(logits_error <= (fast.chooses ? kOtherExperts : kBound));
  if (fast.chooses) CHECK(tests::nmse_of_most(fast.logits, wanted.logits, fast.vocab) <= kBound);
  MESSAGE(name, " ", quant::format(type).name, ": fast mode's NMSE of embeddings ", error, ", of logits ",
          logits_error);
}

template <typename Check>
void for_each_case(const Check& check) {
  const std::vector<std::string> names = tests::known_vision_cases();
  CHECK(names.size() >= models::vision::projector_table().size() + models::sound::encoder_table().size());
  const char* only = std::getenv("RIDGE_TEST_CASE");
  for (const std::string& name : names)
    if (!only || name.find(only) != std::string::npos) {
      try {
        check(name);
      } catch (const core::Error& error) {
        FAIL_CHECK(name, ": ", error.what());
      }
    }
}

} // namespace

TEST_CASE("tiny models of every encoder have the reference's chunks, embeddings and logits") {
  REQUIRE_REFERENCE();
  for_each_case(check_case);
}

TEST_CASE("in fast mode, embeddings and logits of tiny models are near the reference's") {
  REQUIRE_REFERENCE();
  for_each_case([](const std::string& name) {
    const tests::VisionCase c(name);
    if (!c.has_wrong_tiles()) check_fast(name, quant::Type::F32, {c.embeddings(), c.logits()});
  });
}

TEST_CASE("in fast mode, packed models are near what they are in exact mode") {
  REQUIRE_REFERENCE();
  for_each_case([](const std::string& name) {
    constexpr quant::Type kPacked = quant::Type::Q8_0;
    check_fast(name, kPacked, outputs_of(tests::VisionCase(name), true, kPacked));
  });
}

TEST_CASE("the bias of patches is added once, with and without a row for the class") {
  REQUIRE_REFERENCE();
  constexpr double kBias = 0.25;
  for (const char* name : {"mlp-nocls", "mlp"}) {
    CAPTURE(name);
    const auto rows = [&](bool in_table) {
      nlohmann::ordered_json recipe =
          nlohmann::ordered_json::parse(tests::read_file(tests::VisionCase::folder() + "/" + name + ".mmproj.json"));
      const auto shift = [&](std::string_view name, double by) {
        for (auto& tensor : recipe["tensors"])
          if (tensor[0].get<std::string>() == name) tensor[2] = tensor[2].get<double>() + by;
      };
      if (in_table) shift("v.position_embd.weight", kBias);
      if (in_table) shift("v.class_embd", -kBias); // no patch for the class row
      if (!in_table) recipe["tensors"].push_back({"v.patch_embd.bias", {32}, kBias, 0.0});
      tests::Recipe made(name, recipe);
      const std::vector<std::byte> bytes = made.image();
      const tests::TemporaryFolder folder;
      const std::string path = folder.write("mmproj.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      engine::PictureReader reader(path, {.threads = 1, .exact = true});
      std::vector<float> all;
      for (const auto& piece : reader.read(tests::formula_picture(64, 64, 1)))
        if (piece.tile) all.insert(all.end(), piece.tile->all_rows().begin(), piece.tile->all_rows().end());
      return all;
    };
    CHECK(tests::nmse(rows(false), rows(true)) < 1e-8);
  }
}

TEST_CASE("docs/images.md shows every projector as projectors.def has it") {
  const std::string docs = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/images.md");
  CHECK(docs.find(models::vision::projectors_as_markdown()) != std::string::npos);
}

TEST_CASE("docs/sound.md shows every encoder as encoders.def has it") {
  const std::string docs = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/sound.md");
  CHECK(docs.find(models::sound::encoders_as_markdown()) != std::string::npos);
}
