// A small adapter in PEFT's format.
#pragma once

#include "support/safetensors_writer.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tests {

struct PeftFolder {
  std::string path;
  nlohmann::json settings = {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"bias", "none"}, {"use_dora", false},
                             {"use_rslora", false}};
  SafeFile file = {};

  // A [rank, cols] and B [rows, rank].
  struct Matrices {
    std::vector<float> a, b;
  };
  static std::vector<float> random_floats(std::mt19937_64& random, int64_t count) {
    std::normal_distribution<float> normal(0, 0.2f);
    std::vector<float> values(count);
    for (float& v : values) v = normal(random);
    return values;
  }
  Matrices add(const std::string& module, int64_t rows, int64_t cols, int64_t rank, std::mt19937_64& random,
               bool is_table = false) {
    const std::string name = "base_model.model." + module;
    Matrices made{random_floats(random, rank * cols), random_floats(random, rows * rank)};
    file.add(name + (is_table ? ".lora_embedding_A" : ".lora_A.weight"), "F32", {rank, cols}, made.a);
    file.add(name + (is_table ? ".lora_embedding_B" : ".lora_B.weight"), "F32", {rows, rank}, made.b);
    return made;
  }
  void write() const {
    std::filesystem::create_directories(path);
    std::ofstream(path + "/adapter_config.json") << settings.dump();
    std::ofstream(path + "/adapter_model.safetensors", std::ios::binary) << file.bytes();
  }
};

} // namespace ridge::tests
