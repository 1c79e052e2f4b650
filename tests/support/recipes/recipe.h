// Tiny reference models: metadata, shapes, seed.
#pragma once

#include "gguf/writer.h"
#include "quant/encode/encode.h"
#include "quant/registry.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::tests {

struct Recipe {
  std::string name;
  nlohmann::ordered_json document;
  bool keeps_vocabulary = false;

  Recipe(std::string of, nlohmann::ordered_json recipe) : name(std::move(of)), document(std::move(recipe)) {}
  explicit Recipe(std::string of)
      : name(std::move(of)), document(nlohmann::ordered_json::parse(read_file(path() + ".json"))) {}

  std::string path() const { return reference_dir() + "/recipes/" + name; }
  std::vector<int32_t> ids() const { return document["ids"]; }
  std::vector<float> golden_embeddings() const { return read_array<float>(path() + ".embeddings.f32"); }
  std::vector<float> golden() const { return read_array<float>(path() + ".logits.f32"); }

  std::vector<float> golden_draft() const { return read_array<float>(path() + ".mtp.f32"); }

  bool has_tensor(std::string_view part) const {
    return std::ranges::any_of(document["tensors"], [&](const nlohmann::ordered_json& tensor) {
      return tensor[0].get_ref<const std::string&>().find(part) != std::string::npos;
    });
  }

  gguf::File open() const { return opened(image()); }
  // Encodes the named tensors in `type`.
  gguf::File open_as(quant::Type type, const std::set<std::string>& encoded) const {
    return opened(image({}, type, encoded));
  }

  std::vector<std::byte> image(const gguf::Metadata& further = {}, quant::Type type = quant::Type::F32,
                               const std::set<std::string>& encoded = {}) const {
    gguf::Metadata metadata;
    for (const auto& entry : document["metadata"])
      if (const auto key = entry[0].get<std::string>(); keeps_vocabulary || !key.starts_with("tokenizer."))
        metadata.set(key, value(entry[1], entry[2]));
    if (!keeps_vocabulary) metadata.set("tokenizer.ggml.model", "none");
    for (const auto& [key, value] : further.entries()) metadata.set(key, value);
    std::vector<gguf::TensorInfo> infos;
    for (const auto& tensor : document["tensors"]) {
      const auto tensor_name = tensor[0].get<std::string>();
      infos.push_back({tensor_name, encoded.contains(tensor_name) ? type : quant::Type::F32,
                       tensor[1].get<std::vector<int64_t>>()});
    }
    std::vector<std::byte> image;
    gguf::Writer writer(image, metadata, infos);
    for (const auto& tensor : document["tensors"]) {
      const std::vector<float> values = weights(tensor);
      if (!encoded.contains(tensor[0].get<std::string>())) {
        writer.write(std::as_bytes(std::span(values)));
        continue;
      }
      const int64_t cols = tensor[1][0].get<int64_t>(), rows = std::ssize(values) / cols;
      std::vector<std::byte> rows_encoded(quant::format(type).row_bytes(cols) * rows);
      quant::encode_rows(type, values.data(), rows, cols, {}, rows_encoded.data());
      writer.write(rows_encoded);
    }
    writer.finish();
    return image;
  }

  gguf::File opened(std::vector<std::byte> image) const {
    return gguf::File::from_bytes(std::make_shared<std::vector<std::byte>>(std::move(image)), name);
  }

  static gguf::OwnedValue value(int type, const nlohmann::ordered_json& value) {
    switch (type) {
    case 4: return value.get<uint32_t>();
    case 5: return value.get<int32_t>();
    case 6: return value.get<float>();
    case 7: return value.get<bool>();
    case 8: return value.get<std::string>();
    default: break;
    }
    const int element = value["of"];
    if (element == 4) return value["values"].get<std::vector<uint32_t>>();
    if (element == 5) return value["values"].get<std::vector<int32_t>>();
    if (element == 6) return value["values"].get<std::vector<float>>();
    if (element == 8) return value["values"].get<std::vector<std::string>>();
    if (element == 10) return value["values"].get<std::vector<uint64_t>>();
    std::vector<gguf::OwnedValue> flags;
    for (const bool flag : value["values"]) flags.push_back(flag);
    return gguf::OwnedValue::array(gguf::ValueType::boolean, flags);
  }

  // FNV-1a of the name seeds SplitMix64; 24 bits, uniform in offset ± amplitude.
  std::vector<float> weights(const nlohmann::ordered_json& tensor) const {
    uint64_t state = 0xcbf29ce484222325;
    for (const unsigned char c : tensor[0].get<std::string>()) state = (state ^ c) * 0x100000001b3;
    state ^= document["seed"].get<uint64_t>();
    size_t count = 1;
    for (const auto& dim : tensor[1]) count *= dim.get<size_t>();
    const float offset = tensor[2], amplitude = tensor[3];
    std::vector<float> values(count);
    for (float& out : values) {
      uint64_t z = state += 0x9E3779B97F4A7C15;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
      z = (z ^ z >> 27) * 0x94D049BB133111EB;
      z ^= z >> 31;
      const float unit = static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;
      out = offset + amplitude * unit;
    }
    return values;
  }
};

} // namespace ridge::tests
