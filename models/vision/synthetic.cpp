#include "models/vision/synthetic.h"

#include "core/error.h"
#include "models/synthetic.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace ridge::models::vision {
namespace {

struct Shape {
  std::string_view model, projector;
  int64_t layers, width, ffn_width, heads, patch, image, table_side, merge;
  std::vector<int64_t> deepstack = {};
};

const std::vector<Shape>& encoder_shapes() {
  static const std::vector<Shape> kShapes = {
      {"qwen3-vl-8b", "qwen3vl_merger", 27, 1152, 4304, 16, 16, 768, 48, 2, {8, 16, 24}},
      {"gemma-4-12b", "gemma4uv", 0, 3840, 1, 1, 16, 768, 1120, 3},
      {"gemma-4-31b", "gemma4v", 27, 1152, 4304, 16, 16, 768, 10240, 3},
      {"mistral-small-24b", "pixtral", 24, 1024, 4096, 16, 14, 1540, 0, 2},
  };
  return kShapes;
}

gguf::Metadata metadata_of(const Shape& s, int64_t text_width) {
  gguf::Metadata metadata;
  const auto count = [&](const char* key, int64_t value) {
    metadata.set(fmt::format("clip.vision.{}", key), static_cast<uint32_t>(value));
  };
  metadata.set("general.architecture", "clip");
  metadata.set("general.name", fmt::format("synthetic encoder of {}", s.model));
  metadata.set("clip.has_vision_encoder", true);
  metadata.set("clip.projector_type", std::string(s.projector));
  metadata.set(s.projector == "pixtral" ? "clip.use_silu" : "clip.use_gelu", true);
  count("block_count", s.layers);
  count("embedding_length", s.width);
  count("feed_forward_length", s.ffn_width);
  count("attention.head_count", s.heads);
  count("projection_dim", text_width);
  count("patch_size", s.patch);
  count("image_size", s.image);
  count(s.projector.starts_with("gemma4") ? "projector.scale_factor" : "spatial_merge_size", s.merge);
  metadata.set("clip.vision.attention.layer_norm_epsilon", 1e-6f);
  for (const char* key : {"image_mean", "image_std"})
    metadata.set(fmt::format("clip.vision.{}", key), std::vector<float>{0.5f, 0.5f, 0.5f});
  return metadata;
}

class TensorList {
 public:
  TensorList(const Shape& shape, int64_t text_width) : s_(shape), text_width_(text_width) {}

  std::vector<gguf::TensorInfo> all() {
    if (s_.projector == "gemma4uv") return unified();
    const bool biased = s_.projector == "qwen3vl_merger";
    matrix("v.patch_embd", {s_.patch, s_.patch, 3, s_.width}, biased);
    if (biased) add("v.patch_embd.weight.1", {s_.patch, s_.patch, 3, s_.width}, quant::Type::F16);
    if (s_.projector == "qwen3vl_merger") matrix("v.position_embd", {s_.width, s_.table_side * s_.table_side}, false);
    if (s_.projector == "gemma4v") matrix("v.position_embd", {s_.width, s_.table_side, 2}, false);
    if (s_.projector == "pixtral") vector("v.pre_ln.weight", s_.width);
    for (int64_t il = 0; il < s_.layers; ++il) layer(fmt::format("v.blk.{}.", il), biased);
    if (biased) norm("v.post_ln", s_.width, true);
    projector();
    return std::move(tensors_);
  }

 private:
  void add(std::string name, std::vector<int64_t> dims, quant::Type type) {
    tensors_.push_back({std::move(name), type, std::move(dims)});
  }
  void vector(std::string name, int64_t width) { add(std::move(name), {width}, quant::Type::F32); }
  void norm(const std::string& name, int64_t width, bool biased) {
    vector(name + ".weight", width);
    if (biased) vector(name + ".bias", width);
  }
  void matrix(const std::string& name, std::vector<int64_t> dims, bool biased) {
    const int64_t rows = dims.back();
    add(name + ".weight", std::move(dims), quant::Type::F16);
    if (biased) vector(name + ".bias", rows);
  }

  std::vector<gguf::TensorInfo> unified() {
    const int64_t pixels = 3 * s_.patch * s_.patch * s_.merge * s_.merge;
    matrix("v.patch_embd", {pixels, s_.width}, true);
    matrix("v.position_embd", {s_.width, s_.table_side, 2}, false);
    norm("v.patch_norm.1", pixels, true);
    for (const char* name : {"v.patch_norm.2", "v.patch_norm.3"}) norm(name, s_.width, true);
    matrix("mm.input_projection", {s_.width, text_width_}, false);
    return std::move(tensors_);
  }

  void layer(const std::string& blk, bool biased) {
    const bool gemma = s_.projector == "gemma4v";
    norm(blk + "ln1", s_.width, biased);
    norm(blk + "ln2", s_.width, biased);
    if (biased)
      matrix(blk + "attn_qkv", {s_.width, 3 * s_.width}, true);
    else
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) matrix(blk + name, {s_.width, s_.width}, false);
    matrix(blk + "attn_out", {s_.width, s_.width}, biased);
    if (gemma) {
      for (const char* name : {"attn_q_norm", "attn_k_norm"}) norm(blk + name, s_.width / s_.heads, false);
      for (const char* name : {"attn_post_norm", "ffn_post_norm"}) norm(blk + name, s_.width, false);
    }
    matrix(blk + "ffn_up", {s_.width, s_.ffn_width}, biased);
    if (!biased) matrix(blk + "ffn_gate", {s_.width, s_.ffn_width}, false);
    matrix(blk + "ffn_down", {s_.ffn_width, s_.width}, biased);
  }

  void projector() {
    const int64_t square = s_.merge * s_.merge * s_.width;
    if (s_.projector == "gemma4v") return matrix("mm.input_projection", {s_.width, text_width_}, false);
    if (s_.projector == "pixtral") {
      norm("mm.input_norm", s_.width, false);
      matrix("mm.patch_merger", {square, s_.width}, false);
      matrix("mm.1", {s_.width, text_width_}, true);
      matrix("mm.2", {text_width_, text_width_}, true);
      return vector("v.token_embd.img_break", text_width_);
    }
    matrix("mm.0", {square, square}, true);
    matrix("mm.2", {square, text_width_}, true);
    for (const int64_t il : s_.deepstack) {
      const std::string merger = fmt::format("v.deepstack.{}.", il);
      norm(merger + "norm", square, true);
      matrix(merger + "fc1", {square, square}, true);
      matrix(merger + "fc2", {square, text_width_}, true);
    }
  }

  const Shape& s_;
  const int64_t text_width_;
  std::vector<gguf::TensorInfo> tensors_;
};

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_encoder(std::string_view spec) {
  const models::Shape& text = *SyntheticSpec::parse(spec).shape;
  const auto found = std::ranges::find(encoder_shapes(), text.name, &Shape::model);
  if (found == encoder_shapes().end()) {
    std::vector<std::string_view> known;
    for (const Shape& shape : encoder_shapes()) known.push_back(shape.model);
    throw core::Error(
        fmt::format("--image: {} has no image encoder; models with one: {}", text.name, fmt::join(known, ", ")),
        core::Error::kUsage);
  }
  return random_image(metadata_of(*found, text.width), TensorList(*found, text.width).all());
}

} // namespace ridge::models::vision
