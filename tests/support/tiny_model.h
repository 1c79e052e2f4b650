// A small random model with a real tokenizer and chat template.
#pragma once

#include "core/error.h"
#include "core/half.h"
#include "gguf/writer.h"

#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

struct TinyModel {
  int64_t layers = 2, width = 64, heads = 4, kv_heads = 2, ffn_width = 96, context = 512;
  std::string chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  uint64_t seed = 7;
  gguf::Metadata further;
  std::vector<std::string> controls = {};
  std::string architecture = "llama"; // or one with the same tensors
  std::vector<gguf::TensorInfo> extra = {};

  // SentencePiece-like, with 256 byte tokens: encodes any text.
  void write(const std::string& path) const {
    constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    std::vector<int32_t> kinds = {kUnknown, kControl, kControl, kControl, kControl};
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(fmt::format("<0x{:02X}>", byte));
      kinds.push_back(kByte);
    }
    tokens.push_back("▁");
    for (char c = '!'; c <= '~'; ++c) tokens.push_back(std::string(1, c));
    for (const char* word : {"▁the", "▁a", "er", "in", "ing", "▁of", "on"}) tokens.push_back(word);
    kinds.resize(tokens.size(), kNormal);
    for (const std::string& control : controls) tokens.push_back(control);
    kinds.resize(tokens.size(), kControl);
    std::vector<float> scores;
    for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));

    gguf::Metadata metadata;
    const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
    metadata.set("general.architecture", architecture);
    metadata.set(architecture + ".block_count", u32(layers));
    metadata.set(architecture + ".context_length", u32(context));
    metadata.set(architecture + ".embedding_length", u32(width));
    metadata.set(architecture + ".feed_forward_length", u32(ffn_width));
    metadata.set(architecture + ".attention.head_count", u32(heads));
    metadata.set(architecture + ".attention.head_count_kv", u32(kv_heads));
    metadata.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.scores", scores);
    metadata.set("tokenizer.ggml.token_type", kinds);
    metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    metadata.set("tokenizer.ggml.eos_token_id", uint32_t{4});
    if (!chat_template.empty()) metadata.set("tokenizer.chat_template", chat_template);
    for (const auto& [key, value] : further.entries()) metadata.set(key, value);

    const auto vocab = static_cast<int64_t>(tokens.size());
    const int64_t kv_width = width / heads * kv_heads;
    std::vector<gguf::TensorInfo> infos;
    const auto matrix = [&](std::string name, int64_t cols, int64_t rows) {
      infos.push_back({std::move(name), quant::Type::F16, {cols, rows}});
    };
    const auto vector = [&](std::string name) { infos.push_back({std::move(name), quant::Type::F32, {width}}); };
    matrix("token_embd.weight", width, vocab);
    for (int64_t il = 0; il < layers; ++il) {
      const std::string blk = fmt::format("blk.{}.", il);
      vector(blk + "attn_norm.weight");
      matrix(blk + "attn_q.weight", width, width);
      matrix(blk + "attn_k.weight", width, kv_width);
      matrix(blk + "attn_v.weight", width, kv_width);
      matrix(blk + "attn_output.weight", width, width);
      vector(blk + "ffn_norm.weight");
      matrix(blk + "ffn_gate.weight", width, ffn_width);
      matrix(blk + "ffn_up.weight", width, ffn_width);
      matrix(blk + "ffn_down.weight", ffn_width, width);
    }
    vector("output_norm.weight");
    matrix("output.weight", width, vocab);
    infos.insert(infos.end(), extra.begin(), extra.end());

    gguf::Writer writer(path, metadata, infos);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 0.15f);
    for (const gguf::TensorInfo& info : infos) {
      const size_t bytes = info.bytes();
      std::vector<std::byte> data(bytes);
      if (info.type == quant::Type::F32) {
        for (size_t i = 0; i < bytes / 4; ++i) reinterpret_cast<float*>(data.data())[i] = 1.0f;
      } else {
        for (size_t i = 0; i < bytes / 2; ++i)
          reinterpret_cast<uint16_t*>(data.data())[i] = core::f16_from_f32(normal(random));
      }
      writer.write(data);
    }
    writer.finish();
  }
};

} // namespace ridge::tests
