#include "models/sound/synthetic.h"

#include "core/error.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <string>

namespace ridge::models::sound {
namespace {

constexpr std::string_view kModel = "mistral-small-24b";
constexpr int64_t kLayers = 32, kWidth = 1280, kHeads = 20, kFfnWidth = 5120, kBands = 128, kPlaces = 1500, kStack = 4;

gguf::Metadata metadata_of(int64_t text_width) {
  gguf::Metadata metadata;
  const auto count = [&](const char* key, int64_t value) {
    metadata.set(fmt::format("clip.audio.{}", key), static_cast<uint32_t>(value));
  };
  metadata.set("general.architecture", "clip");
  metadata.set("general.name", fmt::format("synthetic audio encoder of {}", kModel));
  metadata.set("clip.has_audio_encoder", true);
  metadata.set("clip.projector_type", "voxtral");
  count("block_count", kLayers);
  count("embedding_length", kWidth);
  count("feed_forward_length", kFfnWidth);
  count("attention.head_count", kHeads);
  count("projection_dim", text_width);
  count("num_mel_bins", kBands);
  count("projector.stack_factor", kStack);
  metadata.set("clip.audio.attention.layer_norm_epsilon", 1e-5f);
  return metadata;
}

std::vector<gguf::TensorInfo> tensors_of(int64_t text_width) {
  std::vector<gguf::TensorInfo> tensors;
  const auto vector = [&](std::string name, int64_t width) {
    tensors.push_back({std::move(name), quant::Type::F32, {width}});
  };
  const auto matrix = [&](const std::string& name, std::vector<int64_t> dims, bool biased = true) {
    const int64_t rows = dims.back();
    tensors.push_back({name + ".weight", quant::Type::F16, std::move(dims)});
    if (biased) vector(name + ".bias", rows);
  };
  const auto norm = [&](const std::string& name) {
    vector(name + ".weight", kWidth);
    vector(name + ".bias", kWidth);
  };
  matrix("a.conv1d.1", {3, kBands, kWidth});
  matrix("a.conv1d.2", {3, kWidth, kWidth});
  matrix("a.position_embd", {kWidth, kPlaces}, false);
  for (int64_t il = 0; il < kLayers; ++il) {
    const std::string blk = fmt::format("a.blk.{}.", il);
    norm(blk + "ln1");
    norm(blk + "ln2");
    matrix(blk + "attn_q", {kWidth, kWidth});
    matrix(blk + "attn_k", {kWidth, kWidth}, false);
    matrix(blk + "attn_v", {kWidth, kWidth});
    matrix(blk + "attn_out", {kWidth, kWidth});
    matrix(blk + "ffn_up", {kWidth, kFfnWidth});
    matrix(blk + "ffn_down", {kFfnWidth, kWidth});
  }
  norm("a.post_ln");
  matrix("mm.a.mlp.1", {kStack * kWidth, text_width}, false);
  matrix("mm.a.mlp.2", {text_width, text_width}, false);
  return tensors;
}

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_encoder(std::string_view spec) {
  const models::Shape& text = *SyntheticSpec::parse(spec).shape;
  if (text.name != kModel)
    throw core::Error(fmt::format("--audio: {} has no audio encoder; {} has one", text.name, kModel),
                      core::Error::kUsage);
  return random_image(metadata_of(text.width), tensors_of(text.width));
}

} // namespace ridge::models::sound
