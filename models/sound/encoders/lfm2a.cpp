// LFM2-Audio's conformer, with rows of 80 ms, full attention and Transformer-XL positions.
#include "core/error.h"
#include "media/sound/spectrum.h"
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::models::sound {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int64_t kWidth = 512; // the file's value is ignored

std::vector<float> emphasized(std::span<const float> samples, int64_t before, int64_t least) {
  constexpr float kShare = 0.97f;
  std::vector<float> made(before + std::max<int64_t>(std::ssize(samples), least));
  for (size_t i = 0; i < samples.size(); ++i) made[before + i] = samples[i] - (i > 0 ? kShare * samples[i - 1] : 0);
  return made;
}

// Normalizes each band over the first `count` frames to mean 0 and deviation 1.
void normalize(Frames& frames, int64_t count) {
  for (int64_t band = 0; band < frames.width; ++band) {
    const auto at = [&](int64_t frame) -> float& { return frames.values[frame * frames.width + band]; };
    double mean = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) mean += at(i) / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) square += (at(i) - mean) * (at(i) - mean);
    const double deviation = std::sqrt(square / static_cast<double>(count - 1)) + 1e-5;
    for (int64_t i = 0; i < frames.count; ++i) at(i) = i < count ? static_cast<float>((at(i) - mean) / deviation) : 0;
  }
}

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  constexpr int64_t kTransform = 512, kWindow = 400, kMinFrames = 2, kMaxSeconds = 120;
  const media::SpectrumSpec spec = {
      .bands = bands_of(h), .transform = kTransform, .loudness = media::Loudness::ln_of_sum};
  if (std::ssize(samples) > kMaxSeconds * kRate)
    core::throw_error("{}: encodes at most {} seconds of audio at once: split it", h.path(), kMaxSeconds);
  const std::vector<double> window = media::hann_window(kWindow, kTransform, (kTransform - kWindow) / 2, false);
  const std::vector<float> padded = emphasized(samples, kTransform / 2, kMinFrames * spec.hop);
  const int64_t count = (std::ssize(padded) - kTransform / 2) / spec.hop;
  Frames frames = {count + 1, spec.bands, media::log_spectrum(padded, count + 1, window, spec)};
  normalize(frames, count);
  return wrapped("", {std::move(frames)}, "");
}

class Lfm2 {
 public:
  explicit Lfm2(Builder& b) : b_(b), heads_(b.hparams().heads()), dim_(kWidth / heads_) {
    if (kWidth % heads_ != 0)
      core::throw_error("{}: {} heads do not divide a width of {}", b.hparams().path(), heads_, kWidth);
    for (int64_t i = 0; i < kWidth / 2; ++i)
      waves_.frequencies.push_back(std::exp(-2 * static_cast<double>(i) * std::log(10000.0) / kWidth));
  }

  ValueId layers(ValueId x) {
    return conformer_layers(
        b_, x,
        {.norm = Norm::layer,
         .attention_norm = "ln1",
         .convolution_norm = "norm_conv",
         .attention = [this](ValueId value, const std::string& blk) { return attention(value, blk); },
         .convolution = [this](ValueId value, const std::string& blk) { return convolution(value, blk); }});
  }

 private:
  // score = (q + u) · k + (q + v) · W position; positions interleave sines and cosines.
  ValueId attention(ValueId x, const std::string& blk) {
    const std::array<ValueId, 3> qkv = {b_.linear(x, blk + "attn_q", kWidth), b_.linear(x, blk + "attn_k", kWidth),
                                        b_.linear(x, blk + "attn_v", kWidth)};
    const std::vector<float> matrix = b_.values(blk + "linear_pos.weight", kWidth * kWidth),
                             u = b_.values(blk + "pos_bias_u", kWidth), v = b_.values(blk + "pos_bias_v", kWidth);
    std::vector<float> matrices, biases;
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t column = 0; column < kWidth; ++column) {
        const bool is_cosine = column % 2 == 0;
        double bias = 0;
        for (int64_t i = h * dim_; i < (h + 1) * dim_; ++i) {
          const float of_wave = matrix[i * kWidth + column + (is_cosine ? 1 : -1)];
          matrices.push_back(is_cosine ? of_wave : -of_wave);
          bias += static_cast<double>(matrices.back()) * v[i];
        }
        biases.push_back(static_cast<float>(bias));
      }
      for (int64_t i = 0; i < dim_ * dim_; ++i) matrices.push_back(i / dim_ == i % dim_ ? 1 : 0);
      biases.insert(biases.end(), u.begin() + h * dim_, u.begin() + (h + 1) * dim_);
    }
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim_)));
    return attend_by_distance(b_, qkv, blk, waves_, matrices, biases, {.heads = heads_, .scale = scale}, false);
  }

  // Folds the batch norm into taps and bias.
  ValueId convolution(ValueId x, const std::string& blk) {
    constexpr int64_t kTaps = 9, kAhead = kTaps / 2;
    std::vector<float> taps = b_.values(blk + "conv_dw.weight", kTaps * kWidth),
                       bias = b_.values(blk + "conv_dw.bias", kWidth);
    const std::vector<float> factor = b_.values(blk + "conv_norm.weight", kWidth),
                             shift = b_.values(blk + "conv_norm.bias", kWidth);
    for (size_t i = 0; i < taps.size(); ++i) taps[i] *= factor[i / kTaps];
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = bias[i] * factor[i] + shift[i];
    return over_time(b_, x, blk + "conv_dw", taps, bias, kAhead, core::Activation::silu);
  }

  Builder& b_;
  const int64_t heads_, dim_;
  Waves waves_;
};

void build(Builder& b, int64_t frames) {
  constexpr int64_t kTaps = 9;
  constexpr core::ActivationParams kRelu = {core::Activation::relu};
  b.use_epsilon(kEpsilon);
  b.skip("a.position_embd.weight"); // positions are computed
  Grid grid = {1, frames, bands_of(b.hparams())};
  ValueId x = b.begin_given(1, kTaps, neighbourhoods(grid, Kernel::bands_first));
  x = b.activate(b.convolution(x, "a.conv1d.0", kTaps), "a.conv1d.1", kRelu);
  for (const int i : {2, 5}) {
    x = each_channel(b, b.begin_stage(x, kTaps, neighbourhoods(grid, Kernel::bands_first)),
                     fmt::format("a.conv1d.{}", i));
    x = b.activate(b.convolution(x, fmt::format("a.conv1d.{}", i + 1), 1), fmt::format("a.conv1d.{}", i + 2), kRelu);
  }
  x = b.channels_first(joined_bands(b, x, grid), "a.pre_encode.order", grid.bands);
  x = Lfm2(b).layers(b.linear(x, "a.pre_encode.out", kWidth));
  x = b.linear(b.norm(x, "mm.a.mlp.0", Norm::layer), "mm.a.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.a.gelu", {core::Activation::gelu_erf}), "mm.a.mlp.3"));
}

} // namespace

constinit const EncoderFile encoders::lfm2a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
