// Gemma 4's conformer. A row covers 40 ms and sees itself and the previous 11.
#include "core/error.h"
#include "media/sound/spectrum.h"
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::models::sound {
namespace {

constexpr int64_t kSeconds = 30;
constexpr int64_t kSeen = 12;
constexpr int64_t kDistances = kSeen + 1;

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  constexpr int64_t kWindow = 320, kTransform = 512, kBefore = kWindow / 2;
  const media::SpectrumSpec spec = {.bands = bands_of(h),
                                    .transform = kTransform,
                                    .scale = media::MelScale::htk,
                                    .loudness = media::Loudness::ln_of_least,
                                    .least = 1e-3,
                                    .of_magnitude = true};
  const std::vector<double> window = media::hann_window(kWindow, kTransform, 0, true);
  std::vector<Frames> pieces;
  for (const std::span<const float> piece : in_pieces(samples, kSeconds)) {
    std::vector<float> padded(kBefore);
    padded.insert(padded.end(), piece.begin(), piece.end());
    const int64_t beyond = std::max<int64_t>(0, std::ssize(padded) - kWindow - 1);
    const int64_t frames = beyond / spec.hop + 1;
    pieces.push_back({frames, spec.bands, media::log_spectrum(padded, frames, window, spec)});
  }
  return wrapped("<|audio>", std::move(pieces), "<audio|>");
}

class Gemma {
 public:
  explicit Gemma(Builder& b)
      : b_(b), width_(b.hparams().width()), heads_(b.hparams().heads()), dim_(b.hparams().head_dim()) {
    for (int64_t wave = 1; wave <= kSeen / 2; ++wave)
      waves_.frequencies.push_back(2 * std::numbers::pi * static_cast<double>(wave) / kDistances);
    waves_.has_constant = true;
    if (heads_ * dim_ != width_)
      core::throw_error("{}: {} heads of {} elements do not match a width of {}", b.hparams().path(), heads_, dim_,
                        width_);
  }

  ValueId layers(ValueId x) {
    const std::string norm = b_.has("a.blk.0.attn_pre_norm.weight") ? "attn_pre_norm" : "ln1";
    return conformer_layers(
        b_, x,
        {.norm = Norm::rms,
         .attention_norm = norm,
         .convolution_norm = "conv_norm", // files swap the names of these two norms
         .attention = [this](ValueId value, const std::string& blk) { return attention(value, blk); },
         .convolution = [this](ValueId value, const std::string& blk) { return convolution(value, blk); }});
  }

 private:
  ValueId scaled(ValueId x, const std::string& name, double scale) {
    std::vector<float> own(dim_, 1);
    if (b_.has(name + ".weight")) own = b_.values(name + ".weight", dim_);
    std::vector<float> factors;
    for (int64_t h = 0; h < heads_; ++h)
      for (const float factor : own) factors.push_back(static_cast<float>(scale * factor));
    return b_.times(x, name, factors);
  }

  // Positions 0 to 12 back, [distance][width]: sines, then cosines.
  std::vector<double> places() const {
    const int64_t half = width_ / 2;
    const double step = std::log(10000.0) / static_cast<double>(std::max<int64_t>(half - 1, 1));
    std::vector<double> made(kDistances * width_);
    for (int64_t distance = 0; distance < kDistances; ++distance)
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(distance) * std::exp(-static_cast<double>(i) * step);
        made[distance * width_ + i] = std::sin(angle);
        made[distance * width_ + half + i] = std::cos(angle);
      }
    return made;
  }

  // Per head: coefficients, then identity rows.
  std::vector<float> matrices(const std::string& blk) {
    const std::vector<float> matrix = b_.values(blk + "attn_k_rel.weight", width_ * width_);
    const std::vector<double> at = places();
    std::vector<float> made;
    for (int64_t h = 0; h < heads_; ++h) {
      std::vector<double> keys(kDistances * dim_);
      for (int64_t distance = 0; distance < kDistances; ++distance)
        for (int64_t i = 0; i < dim_; ++i)
          for (int64_t c = 0; c < width_; ++c)
            keys[distance * dim_ + i] += matrix[(h * dim_ + i) * width_ + c] * at[distance * width_ + c];
      const auto row = [&](const auto& factor_of) {
        for (int64_t i = 0; i < dim_; ++i) {
          double sum = 0;
          for (int64_t distance = 0; distance < kDistances; ++distance)
            sum += keys[distance * dim_ + i] * factor_of(static_cast<double>(distance)) / kDistances;
          made.push_back(static_cast<float>(sum));
        }
      };
      for (const double frequency : waves_.frequencies) {
        row([&](double distance) { return 2 * std::cos(frequency * distance); });
        row([&](double distance) { return -2 * std::sin(frequency * distance); });
      }
      row([](double) { return 1.0; });
      for (int64_t i = 0; i < dim_ * dim_; ++i) made.push_back(i / dim_ == i % dim_ ? 1 : 0);
    }
    return made;
  }

  ValueId attention(ValueId x, const std::string& blk) {
    constexpr float kMaxScore = 50;
    const int64_t rows = heads_ * dim_;
    const double log2 = std::log(2.0), root = std::sqrt(static_cast<double>(dim_));
    const std::array<ValueId, 3> qkv = {
        scaled(b_.linear(x, blk + "attn_q", rows), blk + "per_dim_scale", 1 / (root * log2)),
        scaled(b_.linear(x, blk + "attn_k", rows), blk + "per_dim_k_scale", std::log(1 + std::numbers::e) / log2),
        b_.linear(x, blk + "attn_v", rows)};
    const std::vector<float> biases(heads_ * (waves_.extra() + dim_));
    return attend_by_distance(b_, qkv, blk, waves_, matrices(blk), biases,
                              {.heads = heads_, .scale = 1, .window = kSeen, .soft_cap = kMaxScore}, true);
  }

  ValueId convolution(ValueId x, const std::string& blk) {
    constexpr int64_t kTaps = 5;
    const std::vector<float> taps = b_.values(blk + "conv_dw.weight", kTaps * width_),
                             bias = b_.has(blk + "conv_dw.bias") ? b_.values(blk + "conv_dw.bias", width_)
                                                                 : std::vector<float>();
    x = over_time(b_, x, blk + "conv_dw", taps, bias, 0, core::Activation::identity);
    if (b_.has(blk + "norm_conv.weight")) x = b_.norm(x, blk + "norm_conv", Norm::rms);
    return b_.activate(x, blk + "conv_silu", {core::Activation::silu});
  }

  Builder& b_;
  const int64_t width_, heads_, dim_;
  Waves waves_;
};

void build(Builder& b, int64_t frames) {
  constexpr int64_t kTaps = 9;
  b.use_epsilon(1e-6f);
  Grid grid = {1, frames, bands_of(b.hparams())};
  ValueId x = b.begin_given(1, kTaps, neighbourhoods(grid, Kernel::bands_first));
  for (int i = 0; i < 2; ++i) {
    const std::string name = fmt::format("a.conv1d.{}", i);
    if (i > 0) x = b.begin_stage(x, kTaps, neighbourhoods(grid, Kernel::bands_first));
    x = b.convolution(x, name, kTaps);
    if (b.has(name + ".norm.weight")) x = b.norm(x, name + ".norm", Norm::layer);
    x = b.activate(x, name + ".relu", {core::Activation::relu});
  }
  x = b.linear(joined_bands(b, x, grid), "a.input_projection", b.hparams().width());
  x = Gemma(b).layers(x);
  if (b.has("a.pre_encode.out.weight")) x = b.linear(x, "a.pre_encode.out");
  x = b.has("mm.a.soft_emb_norm.weight") ? b.norm(x, "mm.a.soft_emb_norm", Norm::rms)
                                         : b.unit_norm(x, "mm.a.norm", b.width_of(x));
  b.tokens(b.linear(x, "mm.a.input_projection"));
}

} // namespace

constinit const EncoderFile encoders::gemma4a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
