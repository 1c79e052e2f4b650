// EAGLE-3 heads of synthetic models.
#include "core/error.h"
#include "models/synthetic.h"

namespace ridge::models {
namespace {

gguf::Metadata metadata_of_head(const Shape& s, std::string_view name) {
  gguf::Metadata metadata;
  const auto set = [&](const char* key, auto value) { metadata.set(fmt::format("eagle3.{}", key), value); };
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  metadata.set("general.architecture", "eagle3");
  metadata.set("general.name", name);
  metadata.set("tokenizer.ggml.model", "none");
  set("block_count", uint32_t{1});
  set("context_length", uint32_t{131072});
  set("embedding_length", u32(s.width));
  set("feed_forward_length", u32(s.ffn_width));
  set("attention.head_count", u32(s.heads));
  set("attention.head_count_kv", u32(s.kv_heads));
  set("attention.key_length", u32(s.head_dim));
  set("attention.value_length", u32(s.head_dim));
  set("attention.layer_norm_rms_epsilon", 1e-5f);
  set("rope.dimension_count", u32(s.head_dim));
  set("rope.freq_base", static_cast<float>(s.rope_base));
  set("target_layers", std::vector<uint32_t>{2, u32(s.layers / 2), u32(s.layers - 3)});
  set("target_hidden_size", u32(s.width));
  return metadata;
}

std::vector<gguf::TensorInfo> tensors_of_head(const Shape& s) {
  std::vector<gguf::TensorInfo> tensors;
  const auto matrix = [&](std::string_view name, int64_t cols, int64_t rows) {
    tensors.push_back({fmt::format("{}.weight", name), quant::Type::F16, {cols, rows}});
  };
  const auto norm = [&](std::string_view name) {
    tensors.push_back({fmt::format("{}.weight", name), quant::Type::F32, {s.width}});
  };
  matrix("fc", 3 * s.width, s.width);
  for (const char* name : {"blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm", "output_norm"}) norm(name);
  matrix("blk.0.attn_q", 2 * s.width, s.heads * s.head_dim);
  matrix("blk.0.attn_k", 2 * s.width, s.kv_heads * s.head_dim);
  matrix("blk.0.attn_v", 2 * s.width, s.kv_heads * s.head_dim);
  matrix("blk.0.attn_output", s.heads * s.head_dim, s.width);
  matrix("blk.0.ffn_gate", s.width, s.ffn_width);
  matrix("blk.0.ffn_up", s.width, s.ffn_width);
  matrix("blk.0.ffn_down", s.ffn_width, s.width);
  matrix("output", s.width, s.draft_vocab);
  tensors.push_back({"d2t", gguf::PlainType::I64, {s.draft_vocab}});
  return tensors;
}

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_eagle_head(std::string_view name) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  const Shape& s = *spec.shape;
  if (s.draft_vocab == 0) throw Error(fmt::format("--shape: {} has no EAGLE-3 head", s.name), Error::kUsage);
  gguf::Metadata metadata = metadata_of_head(s, fmt::format("EAGLE-3 head of synthetic {}", name));
  if (spec.recipe) metadata.set("general.file_type", spec.recipe->file_type);
  std::vector<gguf::TensorInfo> tensors = tensors_of_head(s);
  spec.set_types(tensors, "eagle3", 1);
  return random_image(metadata, tensors);
}

} // namespace ridge::models
