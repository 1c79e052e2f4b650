// A partial checkpoint; the numbers show their origin.
#pragma once

#include "checkpoint.h"
#include "convert/import/config/config.h"
#include "convert/import/plan.h"
#include "gguf/safetensors.h"

#include <cstring>

namespace ridge::tests {

struct Made {
  std::vector<int64_t> dims;
  std::vector<float> numbers; // of an F32 tensor
  std::vector<std::byte> bytes;
};

// Enough for a plan, not for a model.
struct Pieces {
  TemporaryFolder folder;
  nlohmann::json config = {{"hidden_size", 4},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 2},
                           {"num_key_value_heads", 1},
                           {"vocab_size", 3},
                           {"intermediate_size", 4},
                           {"head_dim", 4},
                           {"tie_word_embeddings", true}};
  SafeFile file;
  std::string prefix = "model.", layers = "layers.", table = "embed_tokens";
  bool has_drafts = false;
  std::map<std::string, std::vector<float>> numbers;
  std::map<std::string, std::vector<uint64_t>> lists;
  gguf::Metadata metadata;

  explicit Pieces(const char* hf_class) { config["architectures"] = {hf_class}; }

  // Element i is `first` + i.
  void add(const std::string& name, std::vector<int64_t> shape, float first = 0) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
    file.add(name, "F32", std::move(shape), values);
  }
  void in_layer(const std::string& name, std::vector<int64_t> shape, float first = 0) {
    add(prefix + layers + "0." + name, std::move(shape), first);
  }

  std::map<std::string, Made> made() {
    if (!file.tensors.contains(prefix + table + ".weight")) add(prefix + table + ".weight", {3, 4});
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", file.bytes());
    const auto tensors = gguf::Safetensors::open(folder.path());
    const auto read = config_in(folder, metadata, &tensors);
    convert::import::Plan plan(tensors, read, quant::Type::F32);
    plan.run();
    has_drafts = plan.has_drafts;
    numbers = plan.numbers;
    lists = plan.lists;
    std::map<std::string, Made> result;
    for (const auto& output : plan.outputs) {
      Made& one = result[output.info.name];
      one.dims = output.info.dims;
      output.write(
          [&](std::span<const std::byte> bytes) { one.bytes.insert(one.bytes.end(), bytes.begin(), bytes.end()); });
      if (output.info.type != quant::Type::F32) continue;
      one.numbers.resize(one.bytes.size() / sizeof(float));
      std::memcpy(one.numbers.data(), one.bytes.data(), one.bytes.size());
    }
    return result;
  }
};

using Floats = std::vector<float>;
using Dims = std::vector<int64_t>;

// First number per row / columns: the original row.
inline Floats rows_of(const Made& made) {
  Floats rows;
  for (size_t i = 0; i < made.numbers.size(); i += static_cast<size_t>(made.dims[0]))
    rows.push_back(made.numbers[i] / static_cast<float>(made.dims[0]));
  return rows;
}

} // namespace ridge::tests
