// Parakeet, the audio encoder of Nemotron 3 Nano Omni. The file has the window and the bands of the spectrum.
#include "core/error.h"
#include "models/sound/cuts.h"
#include "models/sound/fast_conformer.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::sound {
namespace {

constexpr const char *kWindowName = "a.window", *kFilters = "a.mel_filters";

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  const std::vector<float> own = h.floats(kWindowName, kFastWindow),
                           filters = h.floats(kFilters, bands_of(h) * (kFastTransform / 2 + 1));
  std::vector<double> window(kFastTransform);
  std::ranges::copy(own, window.begin() + (kFastTransform - kFastWindow) / 2);
  const media::SpectrumSpec spec = {.filters = filters};
  return wrapped("", {emphasized_spectrum(h, samples, window, spec, LastFrames::normalized)}, "");
}

int64_t kernel_of(const vision::Hparams& h) {
  constexpr int64_t kMax = 255;
  const int64_t kernel = h.count("conv_kernel_size", kMax);
  if (kernel % 2 == 0)
    core::throw_error("{}: {} is {}, expected an odd number", h.path(), h.key("conv_kernel_size"), kernel);
  return kernel;
}

// Folds the batch norm into taps and bias; the variance includes its epsilon.
ValueId convolution(Builder& b, ValueId x, const std::string& blk) {
  const int64_t width = b.width_of(x);
  std::vector<float> factor = b.values(blk + "conv_norm.weight", width),
                     shift = b.values(blk + "conv_norm.bias", width);
  const std::vector<float> mean = b.values(blk + "conv_norm_mean", width),
                           variance = b.values(blk + "conv_norm_var", width);
  for (int64_t i = 0; i < width; ++i) {
    factor[i] /= std::sqrt(variance[i]);
    shift[i] -= mean[i] * factor[i];
  }
  return centred_convolution(b, x, blk, kernel_of(b.hparams()), factor, shift);
}

void build(Builder& b, int64_t frames) {
  constexpr int64_t kSubsampling = 8;
  constexpr float kEpsilon = 1e-6f;
  b.hparams().count("subsampling_factor", kSubsampling, kSubsampling);
  b.skip(kWindowName);
  b.skip(kFilters);
  const int64_t width = b.hparams().width();
  ValueId x = conformer_layers(
      b, subsampled(b, frames, width),
      {.norm = Norm::layer,
       .attention_norm = "ln1",
       .convolution_norm = "norm_conv",
       .attention = [&](ValueId value, const std::string& blk) { return attend_by_position(b, value, blk, width); },
       .convolution = [&](ValueId value, const std::string& blk) { return convolution(b, value, blk); }});
  x = b.linear(b.norm(x, "mm.a.norm_pre", Norm::rms, kEpsilon, width), "mm.a.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.a.relu", {core::Activation::relu_squared}), "mm.a.mlp.2"));
}

} // namespace

constinit const EncoderFile encoders::parakeet = {.cut = cut, .build = build};

} // namespace ridge::models::sound
