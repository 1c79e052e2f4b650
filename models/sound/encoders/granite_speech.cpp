// Granite Speech: a conformer with attention in blocks and learned distances. Queries read each window of its rows.
#include "core/error.h"
#include "media/sound/spectrum.h"
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace ridge::models::sound {
namespace {

// Pairs of frames, without a last odd one.
std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  constexpr int64_t kTransform = 512, kWindow = 400, kHop = 160, kMaxSeconds = 600;
  constexpr float kRange = 8, kShift = 4, kScale = 4; // kRange: powers of ten below the maximum
  const int64_t bands = bands_of(h) / 2, half = kTransform / 2, given = std::ssize(samples);
  if (bands_of(h) % 2 != 0)
    core::throw_error("{}: {} is {}, expected an even number", h.path(), h.key("num_mel_bins"), bands_of(h));
  if (given > kMaxSeconds * kRate)
    core::throw_error("{}: encodes at most {} seconds of audio at once: split it", h.path(), kMaxSeconds);
  const int64_t count = std::max(given, kHop);
  std::vector<float> padded(count + kTransform);
  std::ranges::copy(samples, padded.begin() + half);
  for (int64_t i = 0; i < half; ++i) { // mirrors both ends
    padded[half - 1 - i] = padded[half + std::min(i + 1, count - 1)];
    padded[half + count + i] = padded[half + std::max<int64_t>(count - 2 - i, 0)];
  }
  const media::SpectrumSpec spec = {
      .bands = bands, .transform = kTransform, .scale = media::MelScale::htk, .least = 1e-10};
  const int64_t frames = count / kHop + 1;
  const std::vector<double> window = media::hann_window(kWindow, kTransform, (kTransform - kWindow) / 2, true);
  Frames made = {frames / 2, 2 * bands, media::log_spectrum(padded, frames, window, spec)};
  const float least = std::ranges::max(made.values) - kRange;
  made.values.resize(made.count * made.width);
  for (float& value : made.values) value = (std::max(value, least) + kShift) / kScale;
  return wrapped("", {std::move(made)}, "");
}

// Ends of blocks of `block` rows; a last one may be shorter.
void in_blocks_of(Builder& b, int64_t block) {
  vision::Stage& stage = b.encoder().stages.back();
  for (int64_t row = 0; row < stage.rows(); ++row)
    stage.block_ends.push_back(static_cast<int32_t>(std::min((row / block + 1) * block, stage.rows())));
}

class Granite {
 public:
  explicit Granite(Builder& b)
      : b_(b), width_(b.hparams().width()), heads_(b.hparams().heads()), dim_(b.hparams().head_dim()),
        block_(b.hparams().count("chunk_size", kMaxBlock)), kernel_(b.hparams().count("conv_kernel_size", kMaxKernel)),
        places_(b.hparams().count("max_pos_emb", kMaxPlaces)) {
    const vision::Hparams& h = b.hparams();
    if (heads_ * dim_ != width_)
      core::throw_error("{}: {} heads of {} elements do not match a width of {}", h.path(), heads_, dim_, width_);
    if (kernel_ % 2 == 0)
      core::throw_error("{}: {} is {}, expected an odd number", h.path(), h.key("conv_kernel_size"), kernel_);
    if (places_ < block_ - 1)
      core::throw_error("{}: {} is {}, too small for blocks of {}", h.path(), h.key("max_pos_emb"), places_, block_);
    for (int64_t wave = 0; wave < block_; ++wave)
      waves_.frequencies.push_back(2 * std::numbers::pi * static_cast<double>(wave) / static_cast<double>(period()));
  }

  // All layers; those that feature_layer lists precede the last, side by side.
  ValueId rows(ValueId x) {
    const int64_t layers = b_.hparams().layers();
    const std::vector<int64_t> listed = b_.hparams().counts("feature_layer");
    std::vector<ValueId> chosen;
    const auto choose = [&](ValueId value, int64_t number) {
      if (std::ranges::find(listed, number) != listed.end()) chosen.push_back(value);
    };
    for (const int64_t number : listed)
      if (number < 0 || number > layers)
        core::throw_error("{}: {} has {}", b_.hparams().path(), b_.hparams().key("feature_layer"), number);
    choose(x, 0);
    in_blocks_of(b_, block_);
    x = conformer_layers(b_, x,
                         {.norm = Norm::layer,
                          .attention_norm = "ln1",
                          .convolution_norm = "norm_conv",
                          .attention = [&](ValueId value, const std::string& blk) { return attention(value, blk); },
                          .convolution = [&](ValueId value, const std::string& blk) { return convolution(value, blk); },
                          .ended =
                              [&](ValueId end, int64_t il) {
                                choose(end, il + 1);
                                return il + 1 == layers / 2 ? with_letters(end) : end;
                              }});
    ValueId all = x;
    for (size_t i = 0; i < chosen.size(); ++i)
      all = i == 0 ? chosen[0] : b_.concat(all, chosen[i], fmt::format("a.features.{}", i));
    return chosen.empty() ? x : b_.concat(all, x, "a.features");
  }

 private:
  static constexpr int64_t kMaxBlock = 1024, kMaxKernel = 255, kMaxPlaces = 1 << 16;

  int64_t period() const { return 2 * block_ - 1; }

  // Adds what the letters guessed from the row mean.
  ValueId with_letters(ValueId x) {
    const ValueId letters = b_.linear(x, "a.enc_ctc_out");
    const ValueId shares = b_.emit(core::OpKind::softmax, "a.enc_ctc_out.softmax", {letters}, b_.width_of(letters));
    return b_.add(x, b_.linear(shares, "a.enc_ctc_out_mid", width_), "a.enc_ctc_add");
  }

  // score = q · (k + distance's row): coefficients of waves through the rows of all distances, then identity rows.
  ValueId attention(ValueId x, const std::string& blk) {
    const std::array<ValueId, 3> qkv = {b_.linear(x, blk + "attn_q", width_), b_.linear(x, blk + "attn_k", width_),
                                        b_.linear(x, blk + "attn_v", width_)};
    const std::vector<float> table = b_.values(blk + "attn_rel_pos_emb", (2 * places_ + 1) * dim_);
    std::vector<double> cosines(period()), sines(period());
    for (int64_t i = 0; i < period(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period());
      cosines[i] = std::cos(angle);
      sines[i] = std::sin(angle);
    }
    std::vector<float> own;
    std::vector<double> even(dim_), odd(dim_);
    for (int64_t wave = 0; wave < block_; ++wave) {
      std::ranges::fill(even, 0);
      std::ranges::fill(odd, 0);
      const double share = (wave == 0 ? 1.0 : 2.0) / static_cast<double>(period());
      for (int64_t distance = 1 - block_; distance < block_; ++distance) {
        const int64_t turn = (wave * (distance + period())) % period();
        const float* row = table.data() + (distance + places_) * dim_;
        for (int64_t i = 0; i < dim_; ++i) {
          even[i] += share * cosines[turn] * row[i];
          odd[i] -= share * sines[turn] * row[i];
        }
      }
      for (const std::vector<double>* part : {&even, &odd})
        for (const double value : *part) own.push_back(static_cast<float>(value));
    }
    for (int64_t i = 0; i < dim_ * dim_; ++i) own.push_back(i / dim_ == i % dim_ ? 1 : 0);
    std::vector<float> matrices;
    for (int64_t h = 0; h < heads_; ++h) matrices.insert(matrices.end(), own.begin(), own.end());
    const std::vector<float> biases(heads_ * (waves_.extra() + dim_));
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim_)));
    return attend_by_distance(b_, qkv, blk, waves_, matrices, biases,
                              {.heads = heads_, .scale = scale, .window = block_, .in_blocks = true}, false);
  }

  // The file's norm is folded into factors and shifts.
  ValueId convolution(ValueId x, const std::string& blk) {
    const std::vector<float> factor = b_.values(blk + "conv_norm.weight", width_),
                             shift = b_.values(blk + "conv_norm.bias", width_);
    return centred_convolution(b_, x, blk, kernel_, factor, shift);
  }

  Builder& b_;
  const int64_t width_, heads_, dim_, block_, kernel_, places_;
  Waves waves_;
};

// Queries of each window of rows attend to each other and to the window.
class Windows {
 public:
  explicit Windows(Builder& b)
      : b_(b), width_(b.hparams().width()), heads_(b.hparams().count("projector.head_count", 1024)),
        window_(b.hparams().count("projector.window_size", 1024)),
        queries_(window_ / b.hparams().count("projector.downsample_rate", window_)) {
    if (width_ % heads_ != 0)
      core::throw_error("{}: {} is {}, which does not divide a width of {}", b.hparams().path(),
                        b.hparams().key("projector.head_count"), heads_, width_);
  }

  void tokens(ValueId x) {
    x = begin(x);
    ValueId q = learned();
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string blk = fmt::format("a.proj_blk.{}.", layer);
      q = attended(q, q, blk + "self_attn", Seen::queries);
      q = attended(q, x, blk + "cross_attn", Seen::rows);
      const ValueId hidden = b_.activate(b_.linear(q, blk + "ffn_up"), blk + "gelu", {core::Activation::gelu_erf});
      q = normed(b_.add(b_.linear(hidden, blk + "ffn_down", width_), q, blk + "ffn_add"), blk + "ffn_norm");
    }
    b_.tokens(b_.linear(q, "a.proj_linear"));
    std::erase_if(b_.encoder().tokens, [&](int32_t row) { return row % (window_ + queries_) < window_; });
  }

 private:
  static constexpr int kLayers = 2;
  enum class Seen : uint8_t { rows, queries };

  // A block is a window's rows, then zeros in place of its queries.
  ValueId begin(ValueId x) {
    const int64_t rows = b_.encoder().stages.back().rows();
    std::vector<int32_t> from;
    for (int64_t first = 0; first < rows; first += window_)
      for (int64_t i = 0; i < window_ + queries_; ++i)
        from.push_back(i < window_ && first + i < rows ? static_cast<int32_t>(first + i) : -1);
    x = b_.begin_stage(x, 1, std::move(from));
    in_blocks_of(b_, window_ + queries_);
    return x;
  }

  ValueId normed(ValueId x, const std::string& tensor) { return b_.norm(x, tensor, Norm::layer, 1e-12f, width_); }

  template <typename Make>
  std::vector<float> in_each_block(const Make& make) const {
    std::vector<float> table;
    for (int64_t block = b_.encoder().stages.back().rows() / (window_ + queries_); block > 0; --block) make(table);
    return table;
  }

  ValueId learned() {
    const std::vector<float> own = b_.values("a.proj_query", queries_ * width_);
    const std::vector<float> table = in_each_block([&](std::vector<float>& to) {
      to.resize(to.size() + window_ * width_);
      to.insert(to.end(), own.begin(), own.end());
    });
    return normed(b_.rows("a.proj_query", table, width_), "a.proj_norm");
  }

  ValueId attended(ValueId q, ValueId of, const std::string& name, Seen seen) {
    const int64_t dim = width_ / heads_;
    const std::vector<float> hidden = in_each_block([&](std::vector<float>& to) {
      to.insert(to.end(), window_, seen == Seen::rows ? 0 : vision::kHidden);
      to.insert(to.end(), queries_, seen == Seen::rows ? vision::kHidden : 0);
    });
    core::AttentionParams params = {.heads = heads_};
    params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
    params.in_blocks = true;
    params.window = window_ + queries_;
    const ValueId values =
        b_.attend_to_seen(b_.linear(q, name + "_q", width_), b_.linear(of, name + "_k", width_),
                          b_.linear(of, name + "_v", width_), name, hidden, {heads_, dim, dim}, params);
    return normed(b_.add(b_.linear(values, name + "_out", width_), q, name + "_add"), name + "_norm");
  }

  Builder& b_;
  const int64_t width_, heads_, window_, queries_;
};

void build(Builder& b, int64_t frames) {
  std::vector<int32_t> all(frames);
  std::iota(all.begin(), all.end(), 0);
  ValueId x = b.begin_given(bands_of(b.hparams()), 1, std::move(all));
  x = b.linear(x, "a.input_projection", b.hparams().width());
  Windows(b).tokens(Granite(b).rows(x));
}

} // namespace

constinit const EncoderFile encoders::granite_speech = {.cut = cut, .build = build};

} // namespace ridge::models::sound
