// LFM2-Audio's conformer.
#include "models/sound/cuts.h"
#include "models/sound/fast_conformer.h"

namespace ridge::models::sound {
namespace {

constexpr int64_t kWidth = 512; // the file's value is ignored

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  const std::vector<double> window =
      media::hann_window(kFastWindow, kFastTransform, (kFastTransform - kFastWindow) / 2, false);
  return wrapped("", {emphasized_spectrum(h, samples, window, {}, LastFrames::zero)}, "");
}

// Folds the batch norm into taps and bias.
ValueId convolution(Builder& b, ValueId x, const std::string& blk) {
  constexpr int64_t kTaps = 9;
  const std::vector<float> factor = b.values(blk + "conv_norm.weight", kWidth),
                           bias = b.values(blk + "conv_dw.bias", kWidth);
  std::vector<float> shift = b.values(blk + "conv_norm.bias", kWidth);
  for (size_t i = 0; i < shift.size(); ++i) shift[i] += bias[i] * factor[i];
  return centred_convolution(b, x, blk, kTaps, factor, shift);
}

void build(Builder& b, int64_t frames) {
  b.use_epsilon(1e-5f);
  b.skip("a.position_embd.weight"); // positions are computed
  ValueId x = conformer_layers(
      b, subsampled(b, frames, kWidth),
      {.norm = Norm::layer,
       .attention_norm = "ln1",
       .convolution_norm = "norm_conv",
       .attention = [&](ValueId value, const std::string& blk) { return attend_by_position(b, value, blk, kWidth); },
       .convolution = [&](ValueId value, const std::string& blk) { return convolution(b, value, blk); }});
  x = b.linear(b.norm(x, "mm.a.mlp.0", Norm::layer), "mm.a.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.a.gelu", {core::Activation::gelu_erf}), "mm.a.mlp.3"));
}

} // namespace

constinit const EncoderFile encoders::lfm2a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
