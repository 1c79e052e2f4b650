#include "models/synthetic.h"

#include "core/error.h"
#include "core/ops.h"
#include "gguf/writer.h"
#include "models/recipes.h"
#include "quant/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

namespace ridge::models {
namespace {

bool has_sigmoid_gate(const Shape& s) {
  return s.architecture == "lfm2moe" || s.architecture == "glm4moe" || s.query_latent > 0;
}

} // namespace

gguf::Metadata metadata_of(const Shape& s) {
  gguf::Metadata metadata;
  const auto set = [&](const char* key, auto value) { metadata.set(fmt::format("{}.{}", s.architecture, key), value); };
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  metadata.set("general.architecture", s.architecture);
  metadata.set("general.name", s.name);
  set("block_count", u32(s.layers + s.draft_layers));
  if (s.draft_layers > 0) set("nextn_predict_layers", u32(s.draft_layers));
  set("context_length", uint32_t{131072});
  set("embedding_length", u32(s.width));
  // Some hybrids say by zeros which layers have heads, and which a feed-forward part.
  const auto per_layer = [&](const char* key, std::string_view kinds, int64_t value) {
    std::vector<uint32_t> values;
    for (int64_t il = 0; il < s.layers; ++il)
      values.push_back(kinds.find(s.kind_of(il)) != std::string_view::npos ? u32(value) : 0);
    set(key, values);
  };
  const bool alone = s.layer_kinds.find('F') != std::string_view::npos; // a layer is one block
  if (alone)
    per_layer("feed_forward_length", "F", s.ffn_width);
  else
    set("feed_forward_length", u32(s.dense_ffn_width > 0 ? s.dense_ffn_width : s.ffn_width));
  set("attention.head_count", u32(s.heads));
  if (s.full_kv_heads > 0) {
    std::vector<uint32_t> heads;
    for (int64_t il = 0; il < s.layers; ++il) heads.push_back(u32(s.kind_of(il) == 'W' ? s.kv_heads : s.full_kv_heads));
    set("attention.head_count_kv", heads);
  } else if (s.layer_kinds.find_first_of("MC") == std::string_view::npos)
    set("attention.head_count_kv", u32(s.kv_heads));
  else
    per_layer("attention.head_count_kv", "A", s.kv_heads);
  if (has_sigmoid_gate(s) && s.architecture != "lfm2moe") set("expert_weights_norm", true);
  if (s.latent > 0) {
    set("attention.key_length_mla", u32(s.head_dim));
    set("attention.value_length_mla", u32(s.value_dim));
    set("attention.kv_lora_rank", u32(s.latent));
    if (s.query_latent > 0) set("attention.q_lora_rank", u32(s.query_latent));
  }
  set("attention.key_length", u32(s.latent > 0 ? s.latent + s.rope_dims : s.head_dim));
  set("attention.value_length", u32(s.latent > 0 ? s.latent : s.head_dim));
  set("attention.layer_norm_rms_epsilon", 1e-5f);
  set("rope.dimension_count", u32(s.rope_dims > 0 ? s.rope_dims : s.head_dim));
  if (s.window > 0) {
    std::vector<uint32_t> slides;
    for (int64_t il = 0; il < s.layers; ++il) slides.push_back(s.kind_of(il) == 'W' ? 1 : 0);
    set("attention.sliding_window", u32(s.window));
    set("attention.sliding_window_pattern", slides);
  }
  if (s.full_head_dim > 0) {
    for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
      set(key, u32(s.full_head_dim));
      set(fmt::format("{}_swa", key).c_str(), u32(s.head_dim));
    }
    set("rope.freq_base_swa", 1e4f);
    set("final_logit_softcapping", 30.0f);
  }
  if (s.architecture == "gpt-oss") {
    set("rope.scaling.type", "yarn");
    set("rope.scaling.factor", 32.0f);
    set("rope.scaling.original_context_length", uint32_t{4096});
  }
  if (s.architecture.starts_with("qwen35")) set("rope.dimension_sections", std::vector<uint32_t>{11, 11, 10, 0});
  set("rope.freq_base", static_cast<float>(s.rope_base));
  set("vocab_size", u32(s.vocab));
  if (s.experts > 0) {
    set("expert_count", u32(s.experts));
    set("expert_used_count", u32(s.experts_used));
    set("expert_feed_forward_length", u32(s.ffn_width));
    if (has_sigmoid_gate(s)) set("expert_gating_func", static_cast<uint32_t>(core::Gate::sigmoid));
  }
  if (s.shared_ffn_width > 0) set("expert_shared_feed_forward_length", u32(s.shared_ffn_width));
  if (s.dense_layers > 0) set("leading_dense_block_count", u32(s.dense_layers));
  if (s.inner > 0) {
    set("ssm.inner_size", u32(s.inner));
    set("ssm.state_size", u32(s.state));
    set("ssm.time_step_rank", u32(s.inner_heads));
    set("ssm.group_count", u32(s.inner_groups));
    set("ssm.conv_kernel", u32(s.conv_kernel));
  } else if (s.conv_kernel > 0) {
    set("shortconv.l_cache", u32(s.conv_kernel));
  }
  return metadata;
}

namespace {

// The tensors of a shape, in the order of files.
class TensorList {
 public:
  explicit TensorList(const Shape& shape) : s_(shape) {}

  std::vector<gguf::TensorInfo> all() {
    const Shape& s = s_;
    matrix("token_embd", {s.width, s.vocab});
    for (int64_t il = 0; il < s.layers + s.draft_layers; ++il) {
      blk_ = fmt::format("blk.{}.", il);
      vector("attn_norm.weight", s.width);
      const char kind = s.kind_of(il);
      if (kind == 'A' || kind == 'W') s.latent > 0 ? latent_attention() : attention(kind);
      if (kind == 'D') delta_net();
      if (kind == 'M') mamba2();
      if (kind == 'C') short_conv();
      if (kind == 'F') feed_forward(false);
      if (s.layer_kinds.find('F') != std::string_view::npos) continue;
      if (gemma()) gemma_norms();
      const bool other_name =
          s.layer_kinds.find('D') != std::string_view::npos || s.architecture == "glm4moe" || gpt_oss();
      vector(other_name ? "post_attention_norm.weight" : "ffn_norm.weight", s.width);
      feed_forward(true, il);
      if (il >= s.layers) draft_head();
    }
    blk_.clear();
    vector(s.architecture == "lfm2moe" ? "token_embd_norm.weight" : "output_norm.weight", s.width);
    if (gemma())
      vector("rope_freqs.weight", s.full_head_dim / 2);
    else
      matrix("output", {s.width, s.vocab});
    return std::move(tensors_);
  }

 private:
  void matrix(std::string_view name, std::vector<int64_t> dims, quant::Type type = quant::Type::F16) {
    tensors_.push_back({fmt::format("{}{}.weight", blk_, name), type, std::move(dims)});
  }
  void vector(std::string_view name, int64_t width) {
    tensors_.push_back({blk_ + std::string(name), quant::Type::F32, {width}});
  }

  bool fused() const { return s_.architecture == "phi3"; } // q with k and v, gate with up

  bool gemma() const { return s_.architecture == "gemma4"; }
  bool gpt_oss() const { return s_.architecture == "gpt-oss"; }

  void attention(char kind) {
    const Shape& s = s_;
    const bool other_heads = kind == 'A' && s.full_head_dim > 0;
    const int64_t head_dim = other_heads ? s.full_head_dim : s.head_dim,
                  kv_heads = other_heads ? s.full_kv_heads : s.kv_heads;
    const int64_t q_width = s.heads * head_dim, kv_width = kv_heads * head_dim;
    if (fused()) {
      matrix("attn_qkv", {s.width, q_width + 2 * kv_width});
    } else {
      matrix("attn_q", {s.width, s.output_gate ? 2 * q_width : q_width});
      matrix("attn_k", {s.width, kv_width});
      if (!other_heads) matrix("attn_v", {s.width, kv_width}); // else keys are values
    }
    matrix("attn_output", {q_width, s.width});
    if (gpt_oss()) {
      vector("attn_output.bias", s.width);
      vector("attn_sinks.weight", s.heads);
    }
    if (s.architecture == "qwen2" || s.architecture == "glm4moe" || gpt_oss()) {
      vector("attn_q.bias", q_width);
      vector("attn_k.bias", kv_width);
      vector("attn_v.bias", kv_width);
    }
    if (s.architecture.starts_with("qwen3") || s.output_gate || s.layer_kinds.find('C') != std::string_view::npos ||
        gemma()) {
      vector("attn_q_norm.weight", head_dim);
      vector("attn_k_norm.weight", head_dim);
    }
  }
  void gemma_norms() {
    for (const char* name : {"post_attention_norm.weight", "post_ffw_norm.weight"}) vector(name, s_.width);
    vector("layer_output_scale.weight", 1);
    if (s_.experts == 0) return;
    for (const char* name :
         {"ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"})
      vector(name, s_.width);
    vector("ffn_down_exps.scale", s_.experts);
    dense("", s_.dense_ffn_width, true);
  }
  void latent_attention() {
    const Shape& s = s_;
    const int64_t k_width = s.heads * s.head_dim, nope = s.head_dim - s.rope_dims;
    if (s.query_latent > 0) {
      matrix("attn_q_a", {s.width, s.query_latent});
      vector("attn_q_a_norm.weight", s.query_latent);
      matrix("attn_q_b", {s.query_latent, k_width});
    } else {
      matrix("attn_q", {s.width, k_width});
    }
    matrix("attn_kv_a_mqa", {s.width, s.latent + s.rope_dims});
    vector("attn_kv_a_norm.weight", s.latent);
    matrix("attn_k_b", {nope, s.latent, s.heads});
    matrix("attn_v_b", {s.latent, s.value_dim, s.heads});
    matrix("attn_output", {s.heads * s.value_dim, s.width});
  }
  void delta_net() {
    const Shape& s = s_;
    const int64_t mixed = s.inner + 2 * s.inner_groups * s.state;
    matrix("attn_qkv", {s.width, mixed});
    matrix("attn_gate", {s.width, s.inner});
    if (s.architecture == "qwen3next") {
      matrix("ssm_ba", {s.width, 2 * s.inner_heads});
    } else {
      matrix("ssm_alpha", {s.width, s.inner_heads});
      matrix("ssm_beta", {s.width, s.inner_heads});
    }
    matrix("ssm_conv1d", {s.conv_kernel, mixed}, quant::Type::F32);
    vector("ssm_a", s.inner_heads);
    vector("ssm_dt.bias", s.inner_heads);
    vector("ssm_norm.weight", s.state);
    matrix("ssm_out", {s.inner, s.width});
  }
  void mamba2() {
    const Shape& s = s_;
    const int64_t mixed = s.inner + 2 * s.inner_groups * s.state;
    matrix("ssm_in", {s.width, s.inner + mixed + s.inner_heads});
    matrix("ssm_conv1d", {s.conv_kernel, mixed}, quant::Type::F32);
    vector("ssm_conv1d.bias", mixed);
    tensors_.push_back({blk_ + "ssm_a", quant::Type::F32, {1, s.inner_heads}});
    tensors_.push_back({blk_ + "ssm_d", quant::Type::F32, {1, s.inner_heads}});
    vector("ssm_dt.bias", s.inner_heads);
    matrix("ssm_norm", {s.inner / s.inner_groups, s.inner_groups}, quant::Type::F32);
    matrix("ssm_out", {s.inner, s.width});
  }
  void short_conv() {
    matrix("shortconv.in_proj", {s_.width, 3 * s_.width});
    matrix("shortconv.conv", {s_.conv_kernel, s_.width}, quant::Type::F32);
    matrix("shortconv.out_proj", {s_.width, s_.width});
  }
  void feed_forward(bool gated, int64_t il = 0) {
    const Shape& s = s_;
    if (s.experts == 0 || il < s.dense_layers)
      return dense("", s.dense_ffn_width > 0 ? s.dense_ffn_width : s.ffn_width, gated);
    matrix("ffn_gate_inp", {s.width, s.experts}, quant::Type::F32);
    if (gemma()) {
      matrix("ffn_gate_up_exps", {s.width, 2 * s.ffn_width, s.experts});
    } else {
      matrix("ffn_gate_exps", {s.width, s.ffn_width, s.experts});
      matrix("ffn_up_exps", {s.width, s.ffn_width, s.experts});
    }
    matrix("ffn_down_exps", {s.ffn_width, s.width, s.experts});
    if (gpt_oss()) {
      vector("ffn_gate_inp.bias", s.experts);
      for (const char* name : {"ffn_gate_exps.bias", "ffn_up_exps.bias"})
        tensors_.push_back({blk_ + name, quant::Type::F32, {s.ffn_width, s.experts}});
      tensors_.push_back({blk_ + "ffn_down_exps.bias", quant::Type::F32, {s.width, s.experts}});
    }
    if (has_sigmoid_gate(s)) vector("exp_probs_b.bias", s.experts);
    if (s.shared_ffn_width == 0) return;
    if (s.layer_kinds.find('D') != std::string_view::npos) vector("ffn_gate_inp_shexp.weight", s.width);
    dense("_shexp", s.shared_ffn_width, gated);
  }
  // Embedding and output matrix are the model's.
  void draft_head() {
    matrix("nextn.eh_proj", {2 * s_.width, s_.width});
    for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight"})
      vector(name, s_.width);
  }
  void dense(const std::string& suffix, int64_t hidden, bool gated) {
    if (gated && !fused()) matrix("ffn_gate" + suffix, {s_.width, hidden});
    matrix("ffn_up" + suffix, {s_.width, fused() ? 2 * hidden : hidden});
    matrix("ffn_down" + suffix, {hidden, s_.width});
  }

  const Shape& s_;
  std::string blk_;
  std::vector<gguf::TensorInfo> tensors_;
};

} // namespace

std::vector<gguf::TensorInfo> tensors_of(const Shape& shape) { return TensorList(shape).all(); }

SyntheticSpec SyntheticSpec::parse(std::string_view spec) {
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view type = colon == std::string_view::npos ? "" : spec.substr(colon + 1);
  const auto shape = std::ranges::find(shapes(), name, &Shape::name);
  if (shape == shapes().end()) {
    std::vector<std::string_view> names;
    for (const Shape& known : shapes()) names.push_back(known.name);
    throw Error(fmt::format("--shape: unknown model '{}'; known are {}", name, fmt::join(names, ", ")), Error::kUsage);
  }
  const quant::FormatInfo* pure = quant::find_format(type);
  const Recipe* recipe = pure ? nullptr : find_recipe(type);
  if ((!pure || !pure->stored()) && !recipe) {
    std::vector<std::string_view> names;
    for (const quant::FormatInfo& format : quant::stored_formats()) names.push_back(format.name);
    for (const Recipe& known : recipes())
      if (!quant::find_format(known.name)) names.push_back(known.name);
    throw Error(fmt::format("--shape: unknown type '{}'; write NAME:TYPE with one of {}", type, fmt::join(names, ", ")),
                Error::kUsage);
  }
  return {&*shape, pure, recipe};
}

void SyntheticSpec::set_types(std::vector<gguf::TensorInfo>& tensors, std::string_view architecture,
                              int64_t layers) const {
  for (gguf::TensorInfo& tensor : tensors)
    if (pure && tensor.type == quant::Type::F16) tensor.type = pure->type;
  if (recipe) {
    const auto types = assign_types(
        *recipe, {std::string(architecture), layers, shape->heads, shape->kv_heads, shape->experts}, tensors);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].type = types[i];
  }
  for (const gguf::TensorInfo& info : tensors)
    if (const int64_t block = info.type.block_weights(); info.dims[0] % block != 0)
      throw Error(fmt::format("--shape: {} rows of {} weights do not divide into {} blocks of {}", info.name,
                              info.dims[0], info.type.name(), block),
                  Error::kUsage);
}

std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view name, bool draft_heads) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  if (draft_heads && spec.shape->draft_layers == 0)
    throw Error(fmt::format("--shape: {} has no draft heads", spec.shape->name), Error::kUsage);
  Shape s = *spec.shape;
  if (!draft_heads) s.draft_layers = 0;
  gguf::Metadata metadata = metadata_of(s);
  metadata.set("general.name", fmt::format("synthetic {}", name));
  if (spec.recipe) metadata.set("general.file_type", spec.recipe->file_type);
  metadata.set("tokenizer.ggml.model", "none");
  std::vector<gguf::TensorInfo> tensors = tensors_of(s);
  spec.set_types(tensors, s.architecture, s.layers);
  return random_image(metadata, tensors);
}

} // namespace ridge::models
