// EAGLE-3 and DFlash heads of synthetic models. DFlash: five layers as wide as the model's, blocks of 16, as those of
// Qwen 3.
#include "core/error.h"
#include "models/synthetic.h"

#include <cmath>

namespace ridge::models {
namespace {

constexpr int64_t kBlockLayers = 5;

uint32_t u32(int64_t value) { return static_cast<uint32_t>(value); }

struct HeadForm {
  const char* architecture;
  int64_t layers, ffn_width;
  float norm_epsilon;
};

// A head file in the making; attention is as wide as the model's.
class HeadImage {
 public:
  HeadImage(const SyntheticSpec& spec, const HeadForm& form, const std::string& name) : spec_(spec), form_(form) {
    const Shape& s = *spec.shape;
    metadata_.set("general.architecture", form.architecture);
    metadata_.set("general.name", name);
    metadata_.set("tokenizer.ggml.model", "none");
    set("block_count", u32(form.layers));
    set("context_length", uint32_t{131072});
    set("embedding_length", u32(s.width));
    set("feed_forward_length", u32(form.ffn_width));
    set("attention.head_count", u32(s.heads));
    set("attention.head_count_kv", u32(s.kv_heads));
    set("attention.key_length", u32(s.head_dim));
    set("attention.value_length", u32(s.head_dim));
    set("attention.layer_norm_rms_epsilon", form.norm_epsilon);
    set("rope.dimension_count", u32(s.head_dim));
    set("rope.freq_base", static_cast<float>(s.rope_base));
  }

  void set(const char* key, auto value) { metadata_.set(fmt::format("{}.{}", form_.architecture, key), value); }
  gguf::Metadata& metadata() { return metadata_; }

  void matrix(std::string_view name, int64_t cols, int64_t rows) {
    tensors_.push_back({fmt::format("{}.weight", name), quant::Type::F16, {cols, rows}});
  }
  void norm(std::string_view name, int64_t width) {
    tensors_.push_back({fmt::format("{}.weight", name), quant::Type::F32, {width}});
  }
  void add(gguf::TensorInfo tensor) { tensors_.push_back(std::move(tensor)); }

  // `inputs`: width of what attention reads.
  void layer_matrices(int64_t layer, int64_t inputs) {
    const Shape& s = *spec_.shape;
    const std::string blk = fmt::format("blk.{}.", layer);
    matrix(blk + "attn_q", inputs, s.heads * s.head_dim);
    matrix(blk + "attn_k", inputs, s.kv_heads * s.head_dim);
    matrix(blk + "attn_v", inputs, s.kv_heads * s.head_dim);
    matrix(blk + "attn_output", s.heads * s.head_dim, s.width);
    matrix(blk + "ffn_gate", s.width, form_.ffn_width);
    matrix(blk + "ffn_up", s.width, form_.ffn_width);
    matrix(blk + "ffn_down", form_.ffn_width, s.width);
  }

  std::shared_ptr<const std::vector<std::byte>> random() {
    if (spec_.recipe) metadata_.set("general.file_type", spec_.recipe->file_type);
    spec_.set_types(tensors_, form_.architecture, form_.layers);
    return random_image(metadata_, tensors_);
  }

 private:
  const SyntheticSpec& spec_;
  const HeadForm form_;
  gguf::Metadata metadata_;
  std::vector<gguf::TensorInfo> tensors_;
};

// The head reads inputs of layers at equal distances from the third to the second to last one.
std::vector<uint32_t> layers_read_by_block(int64_t layers) {
  std::vector<uint32_t> read;
  for (int64_t i = 0; i < kBlockLayers; ++i) {
    const double place = static_cast<double>(i * (layers - 4)) / (kBlockLayers - 1);
    read.push_back(static_cast<uint32_t>(2 + std::lround(place)));
  }
  return read;
}

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_eagle_head(std::string_view name) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  const Shape& s = *spec.shape;
  if (s.draft_vocab == 0) throw Error(fmt::format("--shape: {} has no EAGLE-3 head", s.name), Error::kUsage);
  HeadImage head(spec, {"eagle3", 1, s.ffn_width, 1e-5f}, fmt::format("EAGLE-3 head of synthetic {}", name));
  head.set("target_layers", std::vector<uint32_t>{2, u32(s.layers / 2), u32(s.layers - 3)});
  head.set("target_hidden_size", u32(s.width));
  head.matrix("fc", 3 * s.width, s.width);
  for (const char* norm : {"blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm", "output_norm"})
    head.norm(norm, s.width);
  head.layer_matrices(0, 2 * s.width);
  head.matrix("output", s.width, s.draft_vocab);
  head.add({"d2t", gguf::PlainType::I64, {s.draft_vocab}});
  return head.random();
}

std::shared_ptr<const std::vector<std::byte>> synthetic_dflash_head(std::string_view name) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  const Shape& s = *spec.shape;
  HeadImage head(spec, {"dflash", kBlockLayers, s.experts > 0 ? 3 * s.width : s.ffn_width, 1e-6f},
                 fmt::format("DFlash head of synthetic {}", name));
  head.metadata().set("tokenizer.ggml.mask_token_id", u32(s.vocab - 1));
  head.set("block_size", uint32_t{16});
  head.set("target_layers", layers_read_by_block(s.layers));
  head.matrix("fc", kBlockLayers * s.width, s.width);
  for (const char* norm : {"enc.output_norm", "output_norm"}) head.norm(norm, s.width);
  for (int64_t il = 0; il < kBlockLayers; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    for (const char* norm : {"attn_norm", "ffn_norm"}) head.norm(blk + norm, s.width);
    for (const char* norm : {"attn_q_norm", "attn_k_norm"}) head.norm(blk + norm, s.head_dim);
    head.layer_matrices(il, s.width);
  }
  return head.random();
}

} // namespace ridge::models
