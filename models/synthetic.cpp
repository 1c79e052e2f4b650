#include "models/synthetic.h"

#include "core/error.h"
#include "core/ops.h"
#include "gguf/writer.h"
#include "models/recipes.h"
#include "quant/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::models {

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
  // Some hybrids mark layers without heads or feed-forward part by zeros.
  const auto per_layer = [&](const char* key, std::string_view kinds, int64_t value) {
    std::vector<uint32_t> values;
    for (int64_t il = 0; il < s.layers; ++il)
      values.push_back(kinds.find(s.kind_of(il)) != std::string_view::npos ? u32(value) : 0);
    set(key, values);
  };
  if (s.has('F'))
    per_layer("feed_forward_length", "F", s.ffn_width);
  else
    set("feed_forward_length", u32(s.dense_ffn_width > 0 ? s.dense_ffn_width : s.ffn_width));
  set("attention.head_count", u32(s.heads));
  if (s.has('R')) {
    set("wkv.head_size", u32(s.head_dim));
    set("attention.decay_lora_rank", u32(kDecayRank));
    set("attention.iclr_lora_rank", u32(kRateRank));
    set("attention.value_residual_mix_lora_rank", u32(kValueRank));
    set("attention.gate_lora_rank", u32(kGateRank));
  } else if (s.full_kv_heads > 0) {
    std::vector<uint32_t> heads;
    for (int64_t il = 0; il < s.layers; ++il) heads.push_back(u32(s.kind_of(il) == 'W' ? s.kv_heads : s.full_kv_heads));
    set("attention.head_count_kv", heads);
  } else if (s.layer_kinds.find_first_of("MCKS") == std::string_view::npos)
    set("attention.head_count_kv", u32(s.kv_heads));
  else
    per_layer("attention.head_count_kv", "A", s.kv_heads);
  if (s.has_sigmoid_gate() && s.architecture != "lfm2moe") set("expert_weights_norm", true);
  if (s.latent > 0) {
    set("attention.key_length_mla", u32(s.head_dim));
    set("attention.value_length_mla", u32(s.value_dim));
    set("attention.kv_lora_rank", u32(s.latent));
  }
  if (s.query_latent > 0) set("attention.q_lora_rank", u32(s.query_latent));
  if (s.index_heads > 0) {
    set("attention.indexer.head_count", u32(s.index_heads));
    set("attention.indexer.key_length", u32(s.index_dim));
    set("attention.indexer.top_k", u32(s.index_top));
  }
  if (s.architecture == "minimax-m3") {
    set("attention.indexer.block_size", uint32_t{128});
    set("attention.indexer.local_blocks", uint32_t{1});
  }
  if (s.architecture == "grovemoe") {
    set("expert_group_scale", 0.05f);
    set("experts_per_group", u32(kSharingExperts));
  }
  if (s.architecture == "minimax-01") set("residual_scale", 3.5565588f);
  if (s.compresses()) {
    std::vector<uint32_t> ratios;
    for (int64_t il = 0; il < s.layers; ++il)
      ratios.push_back(s.kind_of(il) == 'E' ? 4 : s.kind_of(il) == 'H' ? 128 : 0);
    set("attention.compress_ratios", ratios);
    set("attention.compress_rope_freq_base", 160000.0f);
    set("attention.output_group_count", u32(kOutputGroups));
    set("attention.output_lora_rank", u32(kOutputRank));
    set("hyper_connection.count", u32(kStreams));
    set("hyper_connection.sinkhorn_iterations", uint32_t{20});
    set("hyper_connection.epsilon", 1e-6f);
    set("hash_layer_count", uint32_t{0});
    set("expert_weights_scale", 1.5f);
    set("swiglu_clamp_exp", std::vector<float>(static_cast<size_t>(s.layers), 10));
  }
  if (s.heads > 0) {
    set("attention.key_length", u32(s.latent > 0 ? s.latent + s.rope_dims : s.head_dim));
    set("attention.value_length", u32(s.latent > 0 ? s.latent : s.head_dim));
    set("rope.dimension_count", u32(s.rope_dims > 0 ? s.rope_dims : s.head_dim));
  }
  set(s.has('R') ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5f);
  if (s.architecture == "nemotron_h") set("attention.layer_norm_epsilon", 1e-5f); // required by llama.cpp
  if (s.window > 0) {
    std::vector<uint32_t> slides;
    for (int64_t il = 0; il < s.layers; ++il) slides.push_back(s.kind_of(il) == 'W' ? 1 : 0);
    set("attention.sliding_window", u32(s.window));
    if (!s.compresses()) set("attention.sliding_window_pattern", slides);
  }
  if (s.full_head_dim > 0) {
    for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
      set(key, u32(s.full_head_dim));
      set(fmt::format("{}_swa", key).c_str(), u32(s.head_dim));
    }
    set("rope.freq_base_swa", 1e4f);
    set("embedding_length_per_layer_input", uint32_t{0}); // required by llama.cpp
    set("final_logit_softcapping", 30.0f);
  }
  if (s.architecture == "gpt-oss") {
    set("rope.scaling.type", "yarn");
    set("rope.scaling.factor", 32.0f);
    set("rope.scaling.original_context_length", uint32_t{4096});
  }
  if (s.architecture == "qwen3vl") {
    set("rope.dimension_sections", std::vector<uint32_t>{24, 20, 20, 0});
    set("n_deepstack_layers", uint32_t{3});
  }
  if (s.architecture.starts_with("qwen35")) set("rope.dimension_sections", std::vector<uint32_t>{11, 11, 10, 0});
  set("rope.freq_base", static_cast<float>(s.rope_base));
  set("vocab_size", u32(s.vocab));
  if (s.experts > 0) {
    set("expert_count", u32(s.experts));
    set("expert_used_count", u32(s.experts_used));
    set("expert_feed_forward_length", u32(s.ffn_width));
    if (s.has_sigmoid_gate())
      set("expert_gating_func",
          static_cast<uint32_t>(s.compresses() ? core::Gate::root_softplus : core::Gate::sigmoid));
  }
  if (s.shared_ffn_width > 0) set("expert_shared_feed_forward_length", u32(s.shared_ffn_width));
  if (s.architecture.starts_with("deepseek") || s.architecture == "glm4moe" || s.architecture == "minimax-m3" ||
      s.has('K'))
    set("expert_shared_count", u32(s.shared_ffn_width / s.ffn_width));
  if (s.dense_layers > 0) set("leading_dense_block_count", u32(s.dense_layers));
  if (s.inner > 0) {
    set("ssm.inner_size", u32(s.inner));
    set("ssm.state_size", u32(s.state));
    set("ssm.time_step_rank", u32(s.inner_heads));
    set("ssm.group_count", u32(s.inner_groups));
    set("ssm.conv_kernel", u32(s.conv_kernel));
    if (s.architecture == "mamba") set("ssm.dt_b_c_rms", true); // of Falcon
  } else if (s.has('K')) {
    set("ssm.conv_kernel", u32(s.conv_kernel));
    set("kda.head_dim", u32(s.state));
  } else if (s.conv_kernel > 0) {
    set("shortconv.l_cache", u32(s.conv_kernel));
  }
  return metadata;
}

SyntheticSpec SyntheticSpec::parse(std::string_view spec) {
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view type = colon == std::string_view::npos ? "" : spec.substr(colon + 1);
  const auto shape = std::ranges::find(shapes(), name, &Shape::name);
  if (shape == shapes().end()) {
    std::vector<std::string_view> names;
    for (const Shape& known : shapes()) names.push_back(known.name);
    throw Error(fmt::format("--shape: unknown model '{}'; expected one of {}", name, fmt::join(names, ", ")),
                Error::kUsage);
  }
  const quant::FormatInfo* pure = quant::find_format(type);
  const Recipe* recipe = pure ? nullptr : find_recipe(type);
  if ((!pure || !pure->stored()) && !recipe) {
    std::vector<std::string_view> names;
    for (const quant::FormatInfo& format : quant::stored_formats()) names.push_back(format.name);
    for (const Recipe& known : recipes())
      if (!quant::find_format(known.name)) names.push_back(known.name);
    throw Error(
        fmt::format("--shape: unknown type '{}'; expected NAME:TYPE with one of {}", type, fmt::join(names, ", ")),
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
      throw Error(fmt::format("--shape: {} rows of {} weights cannot be divided into {} blocks of {}", info.name,
                              info.dims[0], info.type.name(), block),
                  Error::kUsage);
}

namespace {

gguf::Metadata metadata_of(const SyntheticSpec& spec, const Shape& shape, std::string_view name) {
  gguf::Metadata metadata = metadata_of(shape);
  metadata.set("general.name", fmt::format("synthetic {}", name));
  const auto plain = spec.pure ? plain_file_type(spec.pure->type) : std::nullopt;
  if (spec.recipe) metadata.set("general.file_type", spec.recipe->file_type);
  if (plain) metadata.set("general.file_type", *plain);
  metadata.set("tokenizer.ggml.model", "none");
  return metadata;
}

} // namespace

gguf::Metadata synthetic_metadata(std::string_view name) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  return metadata_of(spec, *spec.shape, name);
}

std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view name, bool draft_heads) {
  const SyntheticSpec spec = SyntheticSpec::parse(name);
  if (draft_heads && spec.shape->draft_layers == 0)
    throw Error(fmt::format("--shape: {} has no draft heads", spec.shape->name), Error::kUsage);
  Shape s = *spec.shape;
  if (!draft_heads) s.draft_layers = 0;
  std::vector<gguf::TensorInfo> tensors = tensors_of(s);
  spec.set_types(tensors, s.architecture, s.layers);
  return random_image(metadata_of(spec, s, name), tensors, &s);
}

} // namespace ridge::models
