// Tiny encoders against transformers (tests/golden/pictures, from tests/cross_check/golden_pictures.py).
#include "engine/pictures/picture_reader.h"

#include "support/numerics.h"
#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

using namespace ridge;

TEST_CASE("tiny encoders cut pictures and make rows of them as transformers does") {
  const std::string folder = std::string(RIDGE_SOURCE_DIR) + "/tests/golden/pictures";
  int64_t checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const auto document = nlohmann::ordered_json::parse(tests::read_file(entry.path().string()));
    const std::vector<std::byte> bytes = [&] {
      tests::Recipe recipe(name, document["mmproj"]);
      recipe.keeps_vocabulary = true;
      return recipe.image();
    }();
    const tests::TemporaryFolder files;
    const std::string path = files.write("mmproj.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    engine::PictureReader reader(path, {.threads = 1, .exact = true});
    const std::vector<int64_t> picture = document["picture"];
    std::vector<int64_t> tokens;
    std::vector<float> rows;
    for (const auto& piece : reader.read(tests::formula_picture(picture[0], picture[1], picture[2]))) {
      if (!piece.tile) continue;
      if (name.starts_with("minicpm")) CHECK(piece.tile->columns == 0); // uses text positions
      tokens.push_back(piece.tile->tokens);
      rows.insert(rows.end(), piece.tile->all_rows().begin(), piece.tile->all_rows().end());
    }
    CHECK(tokens == document["tokens"].get<std::vector<int64_t>>());
    const auto golden = tests::read_array<float>(folder + "/" + name + ".f32");
    REQUIRE(rows.size() == golden.size());
    const double error = tests::nmse(rows, golden);
    CHECK(error <= 1e-7);
    MESSAGE(name, ": NMSE ", error);
    ++checked;
  }
  CHECK(checked >= 1);
}
