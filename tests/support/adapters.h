// Random LoRA adapters in memory, and models with merged adapters.
#pragma once

#include "core/half.h"
#include "gguf/writer.h"
#include "models/adapters/add_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tests {

inline gguf::File image_of(const gguf::Metadata& metadata, const std::vector<gguf::TensorInfo>& infos,
                           const std::vector<std::vector<float>>& values, const std::string& label) {
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].type == quant::Type::F32) {
      writer.write(std::as_bytes(std::span(values[i])));
      continue;
    }
    std::vector<uint16_t> halves;
    for (const float v : values[i]) halves.push_back(core::f16_from_f32(v));
    writer.write(std::as_bytes(std::span(halves)));
  }
  writer.finish();
  return gguf::File::from_bytes(image, label);
}

struct AdapterImage {
  gguf::Metadata metadata;
  std::vector<gguf::TensorInfo> infos;
  std::vector<std::vector<float>> values;

  explicit AdapterImage(std::string_view architecture, float alpha = 0) {
    metadata.set("general.type", "adapter");
    metadata.set("general.architecture", std::string(architecture));
    metadata.set("adapter.type", "lora");
    if (alpha > 0) metadata.set("adapter.lora.alpha", alpha);
  }

  void add(const std::string& name, std::vector<int64_t> dims, std::mt19937_64& random,
           quant::Type type = quant::Type::F32) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::normal_distribution<float> normal(0, 0.2f);
    std::vector<float> drawn(count);
    for (float& v : drawn)
      v = type == quant::Type::F16 ? core::f32_from_f16(core::f16_from_f32(normal(random))) : normal(random);
    infos.push_back({name, type, std::move(dims)});
    values.push_back(std::move(drawn));
  }
  void add_pair(const gguf::Tensor& matrix, int64_t rank, std::mt19937_64& random,
                quant::Type type = quant::Type::F32) {
    const std::string name(matrix.name);
    const int64_t cols = matrix.dims[0], rows = matrix.dims[1], count = matrix.dims[2];
    const bool is_table = name == models::kEmbeddingTable;
    std::vector<int64_t> a = {cols, rank}, b = {rank, rows};
    if (is_table) a = {rank, rows}, b = {rank, cols};
    if (count > 1) a.push_back(count), b.push_back(count);
    add(name + ".lora_a", a, random, type);
    add(name + ".lora_b", b, random, type);
  }
  gguf::File file(const std::string& label = "adapter.gguf") const { return image_of(metadata, infos, values, label); }
  void write(const std::string& path) const {
    gguf::Writer writer(path, metadata, infos);
    for (const std::vector<float>& each : values) writer.write(std::as_bytes(std::span(each)));
    writer.finish();
  }
};

inline std::vector<float> floats_of(const gguf::Tensor& tensor) {
  std::vector<float> values(tensor.weights());
  const quant::FormatInfo& format = *tensor.type.format();
  for (int64_t row = 0; row < tensor.weights() / tensor.dims[0]; ++row)
    format.decode(tensor.data.data() + row * format.row_bytes(tensor.dims[0]), tensor.dims[0],
                  values.data() + row * tensor.dims[0]);
  return values;
}

// Adds scale * alpha / rank * B A in double precision; all matrices become F32.
inline gguf::File merged(const gguf::File& model,
                         const std::vector<std::pair<const models::AdapterFile*, float>>& adapters) {
  std::vector<gguf::TensorInfo> infos;
  std::vector<std::vector<float>> values;
  for (const gguf::Tensor& tensor : model.tensors()) {
    infos.push_back(
        {std::string(tensor.name), quant::Type::F32, {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims}});
    values.push_back(floats_of(tensor));
    const int64_t cols = tensor.dims[0], rows = tensor.dims[1];
    std::vector<double> sum(values.back().begin(), values.back().end());
    for (const auto& [adapter, scale] : adapters) {
      const models::AdapterFile::Pair* pair = adapter->find(tensor.name);
      if (!pair) continue;
      const std::vector<float> a = floats_of(*pair->a), b = floats_of(*pair->b);
      const int64_t rank = pair->b->dims[0];
      const double alpha = adapter->file().get_float("adapter.lora.alpha", 0);
      const double factor = scale * (alpha > 0 ? alpha / static_cast<double>(rank) : 1);
      const bool is_table = tensor.name == models::kEmbeddingTable;
      for (int64_t m = 0; m < tensor.dims[2]; ++m)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols; ++c)
            for (int64_t k = 0; k < rank; ++k)
              sum[(m * rows + r) * cols + c] +=
                  factor * (is_table
                                ? static_cast<double>(a[r * rank + k]) * b[c * rank + k]
                                : static_cast<double>(b[(m * rows + r) * rank + k]) * a[(m * rank + k) * cols + c]);
    }
    std::ranges::transform(sum, values.back().begin(), [](double v) { return static_cast<float>(v); });
  }
  gguf::Metadata metadata = gguf::Metadata::of(model);
  return image_of(metadata, infos, values, "merged.gguf");
}

} // namespace ridge::tests
