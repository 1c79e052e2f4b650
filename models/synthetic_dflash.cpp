// DFlash heads of synthetic models: five layers as wide as the model's, blocks of 16, as those of Qwen 3.
#include "core/error.h"
#include "models/synthetic.h"

#include <cmath>

namespace ridge::models {
namespace {

constexpr int64_t kBlockLayers = 5;

// The head reads inputs of layers at equal distances from the third to the second to last one.
std::vector<uint32_t> layers_read_by_block(int64_t layers) {
  std::vector<uint32_t> read;
  for (int64_t i = 0; i < kBlockLayers; ++i) {
    const double place = static_cast<double>(i * (layers - 4)) / (kBlockLayers - 1);
    read.push_back(static_cast<uint32_t>(2 + std::lround(place)));
  }
  return read;
}

int64_t ffn_width_of_block(const Shape& s) { return s.experts > 0 ? 3 * s.width : s.ffn_width; }

gguf::Metadata metadata_of_block_head(const Shape& s, std::string_view name) {
  gguf::Metadata metadata;
  const auto set = [&](const char* key, auto value) { metadata.set(fmt::format("dflash.{}", key), value); };
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  metadata.set("general.architecture", "dflash");
  metadata.set("general.name", name);
  metadata.set("tokenizer.ggml.model", "none");
  metadata.set("tokenizer.ggml.mask_token_id", u32(s.vocab - 1));
  set("block_count", u32(kBlockLayers));
  set("block_size", uint32_t{16});
  set("context_length", uint32_t{131072});
  set("embedding_length", u32(s.width));
  set("feed_forward_length", u32(ffn_width_of_block(s)));
  set("attention.head_count", u32(s.heads));
  set("attention.head_count_kv", u32(s.kv_heads));
  set("attention.key_length", u32(s.head_dim));
  set("attention.value_length", u32(s.head_dim));
  set("attention.layer_norm_rms_epsilon", 1e-6f);
  set("rope.dimension_count", u32(s.head_dim));
  set("rope.freq_base", static_cast<float>(s.rope_base));
  set("target_layers", layers_read_by_block(s.layers));
  return metadata;
}

std::vector<gguf::TensorInfo> tensors_of_block_head(const Shape& s) {
  std::vector<gguf::TensorInfo> tensors;
  const auto matrix = [&](const std::string& name, int64_t cols, int64_t rows) {
    tensors.push_back({name + ".weight", quant::Type::F16, {cols, rows}});
  };
  const auto norm = [&](const std::string& name, int64_t width) {
    tensors.push_back({name + ".weight", quant::Type::F32, {width}});
  };
  matrix("fc", kBlockLayers * s.width, s.width);
  norm("enc.output_norm", s.width);
  norm("output_norm", s.width);
  for (int64_t il = 0; il < kBlockLayers; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    norm(blk + "attn_norm", s.width);
    matrix(blk + "attn_q", s.width, s.heads * s.head_dim);
    matrix(blk + "attn_k", s.width, s.kv_heads * s.head_dim);
    matrix(blk + "attn_v", s.width, s.kv_heads * s.head_dim);
    matrix(blk + "attn_output", s.heads * s.head_dim, s.width);
    norm(blk + "attn_q_norm", s.head_dim);
    norm(blk + "attn_k_norm", s.head_dim);
    norm(blk + "ffn_norm", s.width);
    matrix(blk + "ffn_gate", s.width, ffn_width_of_block(s));
    matrix(blk + "ffn_up", s.width, ffn_width_of_block(s));
    matrix(blk + "ffn_down", ffn_width_of_block(s), s.width);
  }
  return tensors;
}

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_dflash_head(std::string_view name) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  const Shape& s = *spec.shape;
  gguf::Metadata metadata = metadata_of_block_head(s, fmt::format("DFlash head of synthetic {}", name));
  if (spec.recipe) metadata.set("general.file_type", spec.recipe->file_type);
  std::vector<gguf::TensorInfo> tensors = tensors_of_block_head(s);
  spec.set_types(tensors, "dflash", kBlockLayers);
  return random_image(metadata, tensors);
}

} // namespace ridge::models
