// Random weights of synthetic models.
#include "core/error.h"
#include "models/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace ridge::models {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kPoolBytes = 1 << 17;

// Keeps random blocks whose weights have a trained model's magnitude, without knowledge of a format's scales.
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

// Negative, so that states stay bounded.
std::vector<std::byte> decay_rates(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    const float rate = -0.1f - 0.01f * static_cast<float>(i % 64);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof rate, &rate, sizeof rate);
  }
  return bytes;
}

// Scales down tensors that make all tokens choose the same experts. With random weights attention is nearly a mean: it
// adds the same to all tokens and makes them more alike in every layer. Biases of routers favour fixed experts. Other
// mixers are normed afterwards.
float scale_of(std::string_view name, const Shape* shape) {
  constexpr float kSmall = 1.0f / 64;
  if (!shape || shape->experts == 0) return 1;
  const std::string_view mixes = shape->architecture == "gemma4" ? "post_attention_norm.weight" : "attn_norm.weight";
  for (const std::string_view end : {mixes, std::string_view("attn_kv_a_norm.weight"),
                                     std::string_view("ssm_norm.weight"), std::string_view("exp_probs_b.bias")})
    if (name.ends_with(end)) return kSmall;
  return 1;
}

// Draws weights singly: routers that repeated the pool would have equal rows, whose experts are always selected
// together.
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

std::shared_ptr<const std::vector<std::byte>>
random_image(const gguf::Metadata& metadata, const std::vector<gguf::TensorInfo>& tensors, const Shape* shape) {
  std::mt19937_64 random(kSeed), drawing(kSeed);
  std::map<uint32_t, std::vector<std::byte>> pools;
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, tensors);
  for (const gguf::TensorInfo& info : tensors) {
    if (info.name == "rope_freqs.weight") {
      const std::vector<float> ones(static_cast<size_t>(info.dims[0]), 1);
      writer.write(std::as_bytes(std::span(ones)));
      continue;
    }
    if (info.name == "d2t") {
      std::vector<int64_t> tokens(static_cast<size_t>(info.dims[0]));
      std::iota(tokens.begin(), tokens.end(), 0);
      writer.write(std::as_bytes(std::span(tokens)));
      continue;
    }
    if (info.name.ends_with("ssm_a")) {
      writer.write(decay_rates(static_cast<int64_t>(info.bytes() / sizeof(float))));
      continue;
    }
    std::vector<std::byte>& pool = pools[info.type.id()];
    if (pool.empty()) pool = random_blocks(*info.type.format(), random);
    if (const float scale = scale_of(info.name, shape); scale != 1 || info.name.ends_with("ffn_gate_inp.weight")) {
      writer.write(drawn_weights(info, pool, scale, drawing));
      continue;
    }
    const auto block = static_cast<uint64_t>(info.type.block_bytes());
    uint64_t at = random() % (pool.size() / block) * block;
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
