// Tiny encoders against transformers and NumPy (tests/golden/pictures) and llama.cpp (tests/golden/mtmd). Scripts in
// tests/cross_check make these files.
#include "engine/pictures/picture_reader.h"

#include "support/numerics.h"
#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

using namespace ridge;

namespace {

struct GoldenRows {
  std::vector<int64_t> tokens = {};
  std::vector<float> values = {};
  bool is_grid = false;
};

GoldenRows rows_of_recipe(const std::string& name, const nlohmann::ordered_json& document, bool exact) {
  tests::Recipe recipe(name, document["mmproj"]);
  recipe.keeps_vocabulary = true;
  const std::vector<std::byte> bytes = recipe.image();
  const tests::TemporaryFolder files;
  const std::string path = files.write("mmproj.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  engine::PictureReader reader(path, {.threads = 1, .exact = exact});
  const bool is_sound = document.contains("sound");
  const std::vector<int64_t> of = document[is_sound ? "sound" : "picture"];
  const media::Medium medium = is_sound ? media::Medium(tests::formula_sound(of[0], of[1], of[2]))
                                        : media::Medium(tests::formula_picture(of[0], of[1], of[2]));
  GoldenRows rows;
  for (const auto& piece : reader.read(medium)) {
    if (!piece.tile) continue;
    rows.is_grid = rows.is_grid || piece.tile->columns != 0;
    rows.tokens.push_back(piece.tile->tokens);
    rows.values.insert(rows.values.end(), piece.tile->all_rows().begin(), piece.tile->all_rows().end());
  }
  return rows;
}

void check_folder(const std::string& of, double bound) {
  const std::string folder = std::string(RIDGE_SOURCE_DIR) + "/tests/golden/" + of;
  int64_t checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const auto document = nlohmann::ordered_json::parse(tests::read_file(entry.path().string()));
    const GoldenRows rows = rows_of_recipe(name, document, true);
    if (name.starts_with("minicpm")) CHECK(!rows.is_grid); // uses text positions
    CHECK(rows.tokens == document["tokens"].get<std::vector<int64_t>>());
    const auto golden = tests::read_array<float>(folder + "/" + name + ".f32");
    REQUIRE(rows.values.size() == golden.size());
    const double error = tests::nmse(rows.values, golden);
    CHECK(error <= bound);
    constexpr double kFastBound = 1e-3;
    const double fast = tests::nmse(rows_of_recipe(name, document, false).values, golden);
    CHECK(fast <= kFastBound);
    MESSAGE(name, ": NMSE ", error, ", in fast mode ", fast);
    ++checked;
  }
  CHECK(checked >= 1);
}

} // namespace

TEST_CASE("tiny encoders cut pictures and make rows of them as transformers does") { check_folder("pictures", 1e-7); }

// llama.cpp rounds convolutions and GELU to F16.
TEST_CASE("tiny encoders make rows of sounds and pictures as llama.cpp does") { check_folder("mtmd", 1e-6); }
