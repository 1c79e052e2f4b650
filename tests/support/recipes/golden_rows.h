// Tiny encoders with the rows that other implementations make of a generated image or sound (tests/golden).
#pragma once

#include "engine/pictures/picture_reader.h"
#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace ridge::tests {

struct GoldenCase {
  std::string name, path; // path: without extension
  nlohmann::ordered_json document;

  std::vector<float> rows() const { return read_array<float>(path + ".f32"); }
  std::vector<int64_t> tokens() const { return document["tokens"]; }
  media::Medium medium() const {
    const bool is_sound = document.contains("sound");
    const std::vector<int64_t> of = document[is_sound ? "sound" : "picture"];
    if (is_sound) return formula_sound(of[0], of[1], of[2]);
    return formula_picture(of[0], of[1], of[2]);
  }
};

inline std::vector<GoldenCase> golden_cases(const std::string& folder) {
  std::vector<GoldenCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(RIDGE_SOURCE_DIR "/tests/golden/" + folder))
    if (entry.path().extension() == ".json")
      cases.push_back({entry.path().stem().string(), (entry.path().parent_path() / entry.path().stem()).string(),
                       nlohmann::ordered_json::parse(read_file(entry.path().string()))});
  std::ranges::sort(cases, {}, &GoldenCase::name);
  REQUIRE(!cases.empty());
  return cases;
}

struct GoldenRows {
  std::vector<int64_t> tokens = {};
  std::vector<float> values = {};
  bool is_grid = false, on_gpu = false;
};

inline GoldenRows rows_of(const GoldenCase& of, const engine::PictureReader::Options& options) {
  Recipe recipe(of.name, of.document["mmproj"]);
  recipe.keeps_vocabulary = true;
  const std::vector<std::byte> bytes = recipe.image();
  const TemporaryFolder files;
  const std::string path = files.write("mmproj.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  engine::PictureReader reader(path, options);
  GoldenRows rows;
  for (const auto& piece : reader.read(of.medium())) {
    if (!piece.tile) continue;
    rows.is_grid = rows.is_grid || piece.tile->columns != 0;
    rows.tokens.push_back(piece.tile->tokens);
    rows.values.insert(rows.values.end(), piece.tile->all_rows().begin(), piece.tile->all_rows().end());
  }
  rows.on_gpu = reader.on_gpu();
  return rows;
}

} // namespace ridge::tests
