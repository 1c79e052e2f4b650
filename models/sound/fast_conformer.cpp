#include "models/sound/fast_conformer.h"

#include "core/error.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::models::sound {
namespace {

std::vector<float> emphasized(std::span<const float> samples, int64_t before, int64_t least) {
  constexpr float kShare = 0.97f;
  std::vector<float> made(before + std::max<int64_t>(std::ssize(samples), least));
  for (size_t i = 0; i < samples.size(); ++i) made[before + i] = samples[i] - (i > 0 ? kShare * samples[i - 1] : 0);
  return made;
}

// By mean and deviation of the first `count` frames.
void normalize(Frames& frames, int64_t count, LastFrames last) {
  for (int64_t band = 0; band < frames.width; ++band) {
    const auto at = [&](int64_t frame) -> float& { return frames.values[frame * frames.width + band]; };
    double mean = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) mean += at(i) / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) square += (at(i) - mean) * (at(i) - mean);
    const double deviation = std::sqrt(square / static_cast<double>(count - 1)) + 1e-5;
    for (int64_t i = 0; i < frames.count; ++i)
      at(i) = i < count || last == LastFrames::normalized ? static_cast<float>((at(i) - mean) / deviation) : 0;
  }
}

} // namespace

Frames emphasized_spectrum(const vision::Hparams& h, std::span<const float> samples, std::span<const double> window,
                           media::SpectrumSpec spec, LastFrames last) {
  constexpr int64_t kMinFrames = 2, kMaxSeconds = 120;
  spec.bands = bands_of(h);
  spec.transform = kFastTransform;
  spec.loudness = media::Loudness::ln_of_sum;
  if (std::ssize(samples) > kMaxSeconds * kRate)
    core::throw_error("{}: encodes at most {} seconds of audio at once: split it", h.path(), kMaxSeconds);
  const std::vector<float> padded = emphasized(samples, kFastTransform / 2, kMinFrames * spec.hop);
  const int64_t count = (std::ssize(padded) - kFastTransform / 2) / spec.hop;
  Frames frames = {count + 1, spec.bands, media::log_spectrum(padded, count + 1, window, spec)};
  normalize(frames, count, last);
  return frames;
}

ValueId subsampled(Builder& b, int64_t frames, int64_t width) {
  constexpr int64_t kTaps = 9;
  constexpr core::ActivationParams kRelu = {core::Activation::relu};
  Grid grid = {1, frames, bands_of(b.hparams())};
  ValueId x = b.begin_given(1, kTaps, neighbourhoods(grid, Kernel::bands_first));
  x = b.activate(b.convolution(x, "a.conv1d.0", kTaps), "a.conv1d.1", kRelu);
  for (const int i : {2, 5}) {
    x = each_channel(b, b.begin_stage(x, kTaps, neighbourhoods(grid, Kernel::bands_first)),
                     fmt::format("a.conv1d.{}", i));
    x = b.activate(b.convolution(x, fmt::format("a.conv1d.{}", i + 1), 1), fmt::format("a.conv1d.{}", i + 2), kRelu);
  }
  x = b.channels_first(joined_bands(b, x, grid), "a.pre_encode.order", grid.bands);
  return b.linear(x, "a.pre_encode.out", width);
}

ValueId attend_by_position(Builder& b, ValueId x, const std::string& blk, int64_t width) {
  const int64_t heads = b.hparams().heads(), dim = width / heads;
  if (width % heads != 0 || width % 2 != 0)
    core::throw_error("{}: {} heads do not divide an even width of {}", b.hparams().path(), heads, width);
  Waves waves;
  for (int64_t i = 0; i < width / 2; ++i)
    waves.frequencies.push_back(std::exp(-2 * static_cast<double>(i) * std::log(10000.0) / static_cast<double>(width)));
  const std::array<ValueId, 3> qkv = {b.linear(x, blk + "attn_q", width), b.linear(x, blk + "attn_k", width),
                                      b.linear(x, blk + "attn_v", width)};
  const std::vector<float> matrix = b.values(blk + "linear_pos.weight", width * width),
                           u = b.values(blk + "pos_bias_u", width), v = b.values(blk + "pos_bias_v", width);
  std::vector<float> matrices, biases;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t column = 0; column < width; ++column) {
      const bool is_cosine = column % 2 == 0;
      double bias = 0;
      for (int64_t i = h * dim; i < (h + 1) * dim; ++i) {
        const float of_wave = matrix[i * width + column + (is_cosine ? 1 : -1)];
        matrices.push_back(is_cosine ? of_wave : -of_wave);
        bias += static_cast<double>(matrices.back()) * v[i];
      }
      biases.push_back(static_cast<float>(bias));
    }
    for (int64_t i = 0; i < dim * dim; ++i) matrices.push_back(i / dim == i % dim ? 1 : 0);
    biases.insert(biases.end(), u.begin() + h * dim, u.begin() + (h + 1) * dim);
  }
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  return attend_by_distance(b, qkv, blk, waves, matrices, biases, {.heads = heads, .scale = scale}, false);
}

} // namespace ridge::models::sound
