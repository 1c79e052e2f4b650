// Small random models with draft heads.
#pragma once

#include "core/half.h"
#include "gguf/writer.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

struct DraftModel {
  models::Shape shape;
  int64_t heads = 1;
  bool own_ends = true; // heads have their own tables, norms and outputs
  // The next token depends on the last alone; heads predict it.
  bool agrees = false;
  uint64_t seed = 11;

  static DraftModel attention() { return {{"draft", "glm4moe", 3, 64, 96, 4, 2, 16, 48, 1e4}}; }
  static DraftModel recurrent() {
    models::Shape shape = {"draft", "qwen35", 5, 64, 96, 2, 1, 32, 48, 1e4};
    shape.layer_kinds = "DDDAA";
    shape.output_gate = true;
    shape.inner = 64;
    shape.state = 16;
    shape.inner_heads = 4;
    shape.inner_groups = 2;
    shape.conv_kernel = 4;
    return {shape};
  }
  static DraftModel chained() {
    models::Shape shape = {"draft", "step35", 5, 64, 96, 4, 2, 16, 48, 1e4};
    shape.layer_kinds = "WAAWA";
    shape.window = 5;
    return {shape, 3};
  }

  gguf::Metadata metadata() const {
    gguf::Metadata metadata = models::metadata_of(shape);
    metadata.set(std::string(shape.architecture) + ".nextn_predict_layers", static_cast<uint32_t>(heads));
    metadata.set("tokenizer.ggml.model", "none");
    return metadata;
  }

  std::vector<gguf::TensorInfo> tensors() const {
    std::vector<gguf::TensorInfo> tensors = models::tensors_of(shape);
    for (int64_t il = shape.layers - heads; il < shape.layers; ++il) {
      const auto add = [&](const char* name, quant::Type type, std::vector<int64_t> dims) {
        tensors.push_back({fmt::format("blk.{}.nextn.{}.weight", il, name), type, std::move(dims)});
      };
      add("eh_proj", quant::Type::F16, {2 * shape.width, shape.width});
      add("enorm", quant::Type::F32, {shape.width});
      add("hnorm", quant::Type::F32, {shape.width});
      if (!own_ends) continue;
      add("embed_tokens", quant::Type::F16, {shape.width, shape.vocab});
      add("shared_head_norm", quant::Type::F32, {shape.width});
      add("shared_head_head", quant::Type::F16, {shape.width, shape.vocab});
    }
    return tensors;
  }

  std::vector<std::byte> image() const {
    std::vector<std::byte> image;
    gguf::Writer writer(image, metadata(), tensors());
    std::mt19937_64 random(seed);
    for (const gguf::TensorInfo& tensor : tensors()) write(writer, tensor, random);
    writer.finish();
    return image;
  }
  gguf::File open() const {
    return gguf::File::from_bytes(std::make_shared<std::vector<std::byte>>(image()), "draft.gguf");
  }

 private:
  void write(gguf::Writer& writer, const gguf::TensorInfo& tensor, std::mt19937_64& random) const {
    const int64_t cols = tensor.dims[0];
    const bool vector = tensor.dims.size() == 1, rate = tensor.name.ends_with("ssm_a"),
               of_block = tensor.name.ends_with("attn_output.weight") || tensor.name.ends_with("ffn_down.weight") ||
                          tensor.name.ends_with("ssm_out.weight"),
               joins = tensor.name.ends_with("eh_proj.weight");
    const double spread = vector ? 0.2 : (agrees && (of_block || joins) ? 1e-3 : 1) / std::sqrt(cols);
    std::normal_distribution<double> normal(vector && !rate ? 1 : 0, spread);
    std::vector<std::byte> bytes(tensor.bytes());
    const size_t size = tensor.type == quant::Type::F32 ? 4 : 2;
    for (size_t i = 0; i < bytes.size() / size; ++i) {
      double value = normal(random);
      if (rate) value = -0.1 - std::fabs(value);
      if (agrees && joins && static_cast<int64_t>(i) % cols == static_cast<int64_t>(i) / cols) value = 1;
      const auto f32 = static_cast<float>(value);
      const uint16_t f16 = core::f16_from_f32(f32);
      std::memcpy(bytes.data() + i * size, size == 4 ? static_cast<const void*>(&f32) : &f16, size);
    }
    writer.write(bytes);
  }
};

} // namespace ridge::tests
