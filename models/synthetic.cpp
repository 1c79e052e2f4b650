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

constexpr uint64_t kSeed = 1;
constexpr size_t kPoolBytes = 1 << 17; // distinct random blocks of a format; tensors repeat them

// Random blocks whose weights have the magnitude of a trained model's. A block is drawn as random bytes and kept if its
// weights are in range. So this need not know where a format keeps its scales.
std::vector<std::byte> random_blocks(const quant::FormatInfo& format, std::mt19937_64& random) {
  constexpr float kMaxWeight = 0.25f;
  constexpr double kMinRms = 1e-4;
  std::vector<std::byte> pool;
  std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
  std::vector<float> weights(static_cast<size_t>(format.block_weights));
  while (pool.size() < kPoolBytes) {
    for (std::byte& byte : block) byte = static_cast<std::byte>(random());
    format.decode(block.data(), format.block_weights, weights.data());
    double squares = 0;
    bool in_range = true;
    for (const float w : weights) {
      in_range &= std::fabs(w) <= kMaxWeight; // false for NaN
      squares += static_cast<double>(w) * w;
    }
    if (in_range && squares >= kMinRms * kMinRms * static_cast<double>(weights.size()))
      pool.insert(pool.end(), block.begin(), block.end());
  }
  return pool;
}

} // namespace

std::vector<std::byte> random_weights(quant::Type type, int64_t count) {
  const quant::FormatInfo& format = quant::format(type);
  std::mt19937_64 random(kSeed);
  const std::vector<std::byte> pool = random_blocks(format, random);
  std::vector<std::byte> bytes(static_cast<size_t>(count / format.block_weights * format.block_bytes));
  for (size_t at = 0; at < bytes.size(); at += pool.size())
    std::copy_n(pool.begin(), std::min(pool.size(), bytes.size() - at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

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
  if (s.has_sigmoid_gate() && s.architecture != "lfm2moe") set("expert_weights_norm", true);
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
    if (s.has_sigmoid_gate()) set("expert_gating_func", static_cast<uint32_t>(core::Gate::sigmoid));
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

// Rates of forgetting: below 0, so that a state does not grow without bound.
std::vector<std::byte> decay_rates(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    const float rate = -0.1f - 0.01f * static_cast<float>(i % 64);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof rate, &rate, sizeof rate);
  }
  return bytes;
}

// What makes tokens choose experts alike in a model of random weights is made small, by this factor. Attention is
// nearly a mean over the tokens before: it adds the same to all of them, and they are more alike with every layer. And
// biases of scores choose by themselves. Other mixers are normed behind what mixes.
float scale_of(std::string_view name, const Shape& shape) {
  constexpr float kSmall = 1.0f / 64;
  if (shape.experts == 0) return 1;
  const std::string_view mixes = shape.architecture == "gemma4" ? "post_attention_norm.weight" : "attn_norm.weight";
  for (const std::string_view end : {mixes, std::string_view("attn_kv_a_norm.weight"),
                                     std::string_view("ssm_norm.weight"), std::string_view("exp_probs_b.bias")})
    if (name.ends_with(end)) return kSmall;
  return 1;
}

// Weights drawn one by one from the pool, times `scale`: were routers to repeat the pool as other matrices do, many
// rows would be equal, and the experts of equal rows are chosen together.
std::vector<std::byte> drawn_weights(const gguf::TensorInfo& info, const std::vector<std::byte>& pool, float scale,
                                     std::mt19937_64& random) {
  const size_t count = pool.size() / sizeof(float);
  std::vector<std::byte> bytes(info.bytes());
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float weight;
    std::memcpy(&weight, &pool[random() % count * sizeof(float)], sizeof weight);
    weight *= scale;
    std::memcpy(&bytes[at], &weight, sizeof weight);
  }
  return bytes;
}

} // namespace

std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view spec, bool draft_heads) {
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

  if (draft_heads && shape->draft_layers == 0)
    throw Error(fmt::format("--shape: {} has no draft heads", name), Error::kUsage);
  Shape s = *shape;
  if (!draft_heads) s.draft_layers = 0;
  gguf::Metadata metadata = metadata_of(s);
  metadata.set("general.name", fmt::format("synthetic {}", spec));
  if (recipe) metadata.set("general.file_type", recipe->file_type);
  metadata.set("tokenizer.ggml.model", "none");

  std::vector<gguf::TensorInfo> tensors = tensors_of(s);
  for (gguf::TensorInfo& tensor : tensors)
    if (pure && tensor.type == quant::Type::F16) tensor.type = pure->type;
  if (recipe) {
    const auto types =
        assign_types(*recipe, {std::string(s.architecture), s.layers, s.heads, s.kv_heads, s.experts}, tensors);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].type = types[i];
  }
  for (const gguf::TensorInfo& info : tensors)
    if (const int64_t block = info.type.block_weights(); info.dims[0] % block != 0)
      throw Error(fmt::format("--shape: {} rows of {} weights do not divide into {} blocks of {}", info.name,
                              info.dims[0], info.type.name(), block),
                  Error::kUsage);

  std::mt19937_64 random(kSeed), drawing(kSeed);
  std::map<uint32_t, std::vector<std::byte>> pools;
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, tensors);
  for (const gguf::TensorInfo& info : tensors) {
    if (info.name == "rope_freqs.weight") { // divisors
      const std::vector<float> ones(static_cast<size_t>(info.dims[0]), 1);
      writer.write(std::as_bytes(std::span(ones)));
      continue;
    }
    if (info.name.ends_with("ssm_a")) {
      writer.write(decay_rates(static_cast<int64_t>(info.bytes() / sizeof(float))));
      continue;
    }
    std::vector<std::byte>& pool = pools[info.type.id()];
    if (pool.empty()) pool = random_blocks(*info.type.format(), random);
    if (const float scale = scale_of(info.name, s); scale != 1 || info.name.ends_with("ffn_gate_inp.weight")) {
      writer.write(drawn_weights(info, pool, scale, drawing));
      continue;
    }
    const auto block = static_cast<uint64_t>(info.type.block_bytes());
    uint64_t at = random() % (pool.size() / block) * block; // so that matrices differ
    for (uint64_t left = info.bytes(); left > 0;) {
      const uint64_t chunk = std::min<uint64_t>(left, pool.size() - at);
      writer.write(std::span(pool).subspan(at, chunk));
      left -= chunk;
      at = 0;
    }
  }
  writer.finish();
  return image;
}

} // namespace ridge::models
