#include "models/synthetic.h"

#include "core/error.h"
#include "gguf/writer.h"
#include "models/architecture.h"
#include "models/recipes.h"
#include "quant/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace ridge::models {
namespace {

// Hyperparameters as their publishers give them.
const std::vector<Shape> kShapes = {
    {"llama-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 5e5},
    {"llama-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 5e5},
    {"llama-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 5e5},
    {"llama-70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 5e5},
    {"mistral-7b", "llama", 32, 4096, 14336, 32, 8, 128, 32768, 1e6},
    {"mixtral-8x7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, 1e6, 8, 2},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 1e6},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 1e6},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 1e6},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 1e6},
    {"qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 1e6},
    {"qwen3-32b", "qwen3", 64, 5120, 25600, 64, 8, 128, 151936, 1e6},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 768, 32, 4, 128, 151936, 1e6, 128, 8},
};

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

const std::vector<Shape>& shapes() { return kShapes; }

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
  set("block_count", u32(s.layers));
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
  set("vocab_size", u32(s.vocab));
  if (s.experts > 0) {
    set("expert_count", u32(s.experts));
    set("expert_used_count", u32(s.experts_used));
    set("expert_feed_forward_length", u32(s.ffn_width));
  }
  return metadata;
}

std::vector<gguf::TensorInfo> tensors_of(const Shape& s) {
  std::vector<gguf::TensorInfo> tensors;
  const auto matrix = [&](const std::string& prefix, std::string_view tensor, std::vector<int64_t> dims) {
    tensors.push_back({fmt::format("{}{}.weight", prefix, tensor), quant::Type::F16, std::move(dims)});
  };
  const auto vector = [&](const std::string& tensor, int64_t width) {
    tensors.push_back({tensor, quant::Type::F32, {width}});
  };
  const Checkpoint& checkpoint = find_architecture(s.architecture)->file.checkpoint;
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  matrix("", "token_embd", {s.width, s.vocab});
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string blk = fmt::format("blk.{}.", layer);
    vector(blk + "attn_norm.weight", s.width);
    matrix(blk, "attn_q", {s.width, q_width});
    matrix(blk, "attn_k", {s.width, kv_width});
    matrix(blk, "attn_v", {s.width, kv_width});
    matrix(blk, "attn_output", {q_width, s.width});
    if (checkpoint.qkv_bias) {
      vector(blk + "attn_q.bias", q_width);
      vector(blk + "attn_k.bias", kv_width);
      vector(blk + "attn_v.bias", kv_width);
    }
    if (checkpoint.qk_norm) {
      vector(blk + "attn_q_norm.weight", s.head_dim);
      vector(blk + "attn_k_norm.weight", s.head_dim);
    }
    vector(blk + "ffn_norm.weight", s.width);
    if (s.experts > 0) {
      tensors.push_back({blk + "ffn_gate_inp.weight", quant::Type::F32, {s.width, s.experts}});
      matrix(blk, "ffn_gate_exps", {s.width, s.ffn_width, s.experts});
      matrix(blk, "ffn_up_exps", {s.width, s.ffn_width, s.experts});
      matrix(blk, "ffn_down_exps", {s.ffn_width, s.width, s.experts});
    } else {
      matrix(blk, "ffn_gate", {s.width, s.ffn_width});
      matrix(blk, "ffn_up", {s.width, s.ffn_width});
      matrix(blk, "ffn_down", {s.ffn_width, s.width});
    }
  }
  vector("output_norm.weight", s.width);
  matrix("", "output", {s.width, s.vocab});
  return tensors;
}

std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view spec) {
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view type = colon == std::string_view::npos ? "" : spec.substr(colon + 1);
  const auto shape = std::ranges::find(kShapes, name, &Shape::name);
  if (shape == kShapes.end()) {
    std::vector<std::string_view> names;
    for (const Shape& known : kShapes) names.push_back(known.name);
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

  const Shape& s = *shape;
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

  std::mt19937_64 random(kSeed);
  std::map<uint32_t, std::vector<std::byte>> pools;
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, tensors);
  for (const gguf::TensorInfo& info : tensors) {
    std::vector<std::byte>& pool = pools[info.type.id()];
    if (pool.empty()) pool = random_blocks(*info.type.format(), random);
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
