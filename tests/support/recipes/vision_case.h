// Tiny multimodal reference models, with generated input.
#pragma once

#include "gguf/writer.h"
#include "media/medium.h"
#include "models/sound/encoder.h"
#include "models/vision/projector.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ridge::tests {

inline uint64_t picture_number(uint64_t seed, uint64_t k) {
  uint64_t z = seed + (k + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

inline media::Picture formula_picture(int64_t width, int64_t height, uint64_t seed) {
  media::Picture picture(width, height);
  const auto h = [&](uint64_t k) { return picture_number(seed, k); };
  const int64_t square = 5 + static_cast<int64_t>(h(6) % 12);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const auto slope = [&](int64_t k) { return static_cast<int64_t>(h(k) % 97); };
        const int64_t at = (y * width + x) * 3 + c;
        const int64_t value = slope(c) * x / width + slope(3 + c) * y / height +
                              static_cast<int64_t>(h(16 + (y / square * 4096 + x / square) * 3 + c) >> 57) * 3 / 4 +
                              static_cast<int64_t>(h((uint64_t{1} << 40) + at) >> 60);
        picture.rgb[at] = static_cast<uint8_t>(std::min<int64_t>(value, 255));
      }
  return picture;
}

inline media::Sound formula_sound(int64_t milliseconds, int64_t rate, uint64_t seed) {
  media::Sound sound = {rate, std::vector<float>(milliseconds * rate / 1000)};
  const auto h = [&](uint64_t k) { return picture_number(seed, k); };
  for (int64_t i = 0; i < std::ssize(sound.samples); ++i) {
    int64_t sum = static_cast<int64_t>(h((uint64_t{1} << 40) + i) >> 54) - 512;
    for (int64_t j = 0; j < 3; ++j) {
      const int64_t frequency = static_cast<int64_t>(h(j) % 400) + 80 * (j + 1) * (j + 1);
      const int64_t phase = (i * frequency * 65536 / rate + i * i * static_cast<int64_t>(h(3 + j) % 64) / rate) % 65536;
      const auto level = static_cast<int64_t>(h(16 + i * 10 / rate * 3 + j) >> 60);
      sum += ((std::abs(phase - 32768) - 16384) * level) >> 4;
    }
    sound.samples[i] = static_cast<float>(std::clamp<int64_t>(sum, -32768, 32767)) / 32768;
  }
  return sound;
}

struct VisionCase {
  std::string name;
  nlohmann::ordered_json document;

  explicit VisionCase(std::string of)
      : name(std::move(of)), document(nlohmann::ordered_json::parse(read_file(path() + ".case.json"))) {}

  static std::string folder() { return reference_dir() + "/vision"; }
  std::string path() const { return folder() + "/" + name; }
  std::string projector() const { return document["projector"]; }
  std::string prompt() const { return document["prompt"]; }
  int64_t count(const char* key) const { return document[key]; }
  double spread(const char* key) const { return document.value(key, 0.0); }
  // The reference resizes a table wrongly: only the last image is comparable.
  bool has_wrong_tiles() const { return name == "deepseekocr-quirk"; }
  // NMSE; larger where the reference rounds to f16.
  double bound(const char* spread_key) const { return std::max(5e-6, 5 * spread(spread_key)); }
  std::vector<float> embeddings() const { return read_array<float>(path() + ".embd.f32"); }
  std::vector<float> logits() const { return read_array<float>(path() + ".logits.f32"); }
  bool has_sound() const { return document["media"]["kind"] == "sound"; }
  media::Picture picture() const {
    const auto& media = document["media"];
    return formula_picture(media["width"], media["height"], media["seed"]);
  }
  media::Sound sound() const {
    const auto& media = document["media"];
    return formula_sound(media["ms"], media["rate"], media["seed"]);
  }
  media::Medium medium() const { return has_sound() ? media::Medium(sound()) : media::Medium(picture()); }
  std::vector<std::byte> image(const std::string& part, quant::Type type = quant::Type::F32) const {
    Recipe recipe(name, nlohmann::ordered_json::parse(read_file(path() + "." + part + ".json")));
    recipe.keeps_vocabulary = true;
    std::set<std::string> encoded;
    for (const auto& tensor : recipe.document["tensors"]) {
      const auto of = tensor[0].get<std::string>();
      const bool is_matrix =
          of.find("blk.") != of.npos && of.find("conv") == of.npos && of.ends_with(".weight") && tensor[1].size() >= 2;
      if (is_matrix && tensor[1][0].get<int64_t>() % quant::format(type).block_weights == 0) encoded.insert(of);
    }
    return recipe.image({}, type, encoded);
  }
};

inline std::vector<std::string> known_vision_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(VisionCase::folder())) {
    const std::string file = entry.path().filename().string(), end = ".case.json";
    if (!file.ends_with(end)) continue;
    const VisionCase found(file.substr(0, file.size() - end.size()));
    const auto is_its = [&](const auto& row) { return row.name == found.projector(); };
    if (found.has_sound() ? std::ranges::any_of(models::sound::encoder_table(), is_its)
                          : std::ranges::any_of(models::vision::projector_table(), is_its))
      names.push_back(found.name);
  }
  std::ranges::sort(names);
  return names;
}

} // namespace ridge::tests
