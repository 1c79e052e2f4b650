// A tiny random model and its EAGLE-3 head.
#pragma once

#include "core/half.h"
#include "gguf/writer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ridge::tests {

// tests/cross_check/eagle3_check.py makes the same files: weights depend only on the tensor's name and the index.
struct EaglePair {
  bool own_table = false, own_output = true;
  int64_t width = 64, own_vocab = 24;
  bool norm_before_fc = false, norm_before_residual = false;
  std::vector<uint32_t> layers = {1, 2, 4};
  std::string model_architecture = "llama";
  int64_t model_width = 64, model_layers = 5, vocab = 48;
  int64_t vocabulary_stride = 2; // stride of the head's vocabulary in the model's

  static std::vector<EaglePair> kinds() {
    return {{},
            {.own_table = true, .width = 32, .norm_before_fc = true, .layers = {0, 3, 5}},
            {.own_output = false, .own_vocab = 0, .norm_before_residual = true, .layers = {2, 2, 2}}};
  }

  gguf::File model() const { return open(model_image(), "model.gguf"); }
  gguf::File head() const { return open(head_image(), "eagle3.gguf"); }

  std::shared_ptr<std::vector<std::byte>> model_image() const {
    std::vector<gguf::TensorInfo> tensors;
    add(tensors, "token_embd.weight", {model_width, vocab});
    for (int64_t il = 0; il < model_layers; ++il) add_layer(tensors, il, model_width, model_width);
    add(tensors, "output_norm.weight", {model_width});
    add(tensors, "output.weight", {model_width, vocab});
    return image(metadata(model_architecture, model_width, model_layers), tensors);
  }

  std::shared_ptr<std::vector<std::byte>> head_image() const {
    std::vector<gguf::TensorInfo> tensors;
    const auto taken = static_cast<int64_t>(layers.size()) * model_width;
    add(tensors, "fc.weight", {taken, width});
    if (norm_before_fc) add(tensors, "enc.output_norm.weight", {taken});
    if (own_table) add(tensors, "token_embd.weight", {width, vocab});
    add_layer(tensors, 0, width, 2 * width);
    add(tensors, "blk.0.attn_norm_2.weight", {width});
    add(tensors, "output_norm.weight", {width});
    if (own_output) add(tensors, "output.weight", {width, own_vocab > 0 ? own_vocab : vocab});
    if (own_vocab > 0) tensors.push_back({"d2t", gguf::PlainType::I64, {own_vocab}});
    gguf::Metadata head = metadata("eagle3", width, 1);
    head.set("eagle3.target_layers", layers);
    head.set("eagle3.target_hidden_size", static_cast<uint32_t>(model_width));
    head.set("eagle3.norm_before_fc", norm_before_fc);
    head.set("eagle3.norm_before_residual", norm_before_residual);
    return image(head, tensors);
  }

 protected:
  static constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 16, kFfn = 96;

  static gguf::File open(std::shared_ptr<const std::vector<std::byte>> image, const char* name) {
    return gguf::File::from_bytes(std::move(image), name);
  }
  static void add(std::vector<gguf::TensorInfo>& tensors, const std::string& name, std::vector<int64_t> dims) {
    tensors.push_back({name, quant::Type::F32, std::move(dims)});
  }
  static void add_layer(std::vector<gguf::TensorInfo>& tensors, int64_t il, int64_t width, int64_t input) {
    const std::string blk = fmt::format("blk.{}.", il);
    add(tensors, blk + "attn_norm.weight", {width});
    add(tensors, blk + "attn_q.weight", {input, kHeads * kDim});
    add(tensors, blk + "attn_k.weight", {input, kKvHeads * kDim});
    add(tensors, blk + "attn_v.weight", {input, kKvHeads * kDim});
    add(tensors, blk + "attn_output.weight", {kHeads * kDim, width});
    add(tensors, blk + "ffn_norm.weight", {width});
    add(tensors, blk + "ffn_gate.weight", {width, kFfn});
    add(tensors, blk + "ffn_up.weight", {width, kFfn});
    add(tensors, blk + "ffn_down.weight", {kFfn, width});
  }
  static gguf::Metadata metadata(const std::string& architecture, int64_t width, int64_t layers) {
    gguf::Metadata metadata;
    const auto set = [&](const char* key, auto value) { metadata.set(fmt::format("{}.{}", architecture, key), value); };
    metadata.set("general.architecture", architecture);
    metadata.set("tokenizer.ggml.model", "none");
    set("block_count", static_cast<uint32_t>(layers));
    set("context_length", uint32_t{512});
    set("embedding_length", static_cast<uint32_t>(width));
    set("feed_forward_length", static_cast<uint32_t>(kFfn));
    set("attention.head_count", static_cast<uint32_t>(kHeads));
    set("attention.head_count_kv", static_cast<uint32_t>(kKvHeads));
    set("attention.key_length", static_cast<uint32_t>(kDim));
    set("attention.value_length", static_cast<uint32_t>(kDim));
    set("attention.layer_norm_rms_epsilon", 1e-5f);
    set("rope.dimension_count", static_cast<uint32_t>(kDim));
    set("rope.freq_base", 10000.0f);
    return metadata;
  }

  // FNV-1a of the name, then splitmix64 with the index.
  static float weight(const std::string& tensor, int64_t place, int64_t cols, bool vector) {
    uint64_t x = 14695981039346656037u;
    for (const char c : tensor) x = (x ^ static_cast<uint8_t>(c)) * 1099511628211u;
    x += 0x9e3779b97f4a7c15u * static_cast<uint64_t>(place + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const double unit = static_cast<double>(x >> 40) / (1 << 24) * 2 - 1;
    return static_cast<float>(vector ? 1 + 0.3 * unit : 2 * unit / std::sqrt(static_cast<double>(cols)));
  }

  std::shared_ptr<std::vector<std::byte>> image(const gguf::Metadata& metadata,
                                                const std::vector<gguf::TensorInfo>& tensors) const {
    auto image = std::make_shared<std::vector<std::byte>>();
    gguf::Writer writer(*image, metadata, tensors);
    for (const gguf::TensorInfo& tensor : tensors) {
      std::vector<std::byte> bytes(tensor.bytes());
      const bool words = tensor.name == "d2t";
      const int64_t count = std::ssize(bytes) / (words ? 8 : 4);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t word = vocabulary_stride * i;
        const float value = words ? 0 : weight(tensor.name, i, tensor.dims[0], tensor.dims.size() == 1);
        std::memcpy(bytes.data() + i * (words ? 8 : 4), words ? static_cast<const void*>(&word) : &value,
                    words ? 8 : 4);
      }
      writer.write(bytes);
    }
    writer.finish();
    return image;
  }
};

} // namespace ridge::tests
