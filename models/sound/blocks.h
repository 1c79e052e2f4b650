// Parts that audio encoders share.
#pragma once

#include "models/sound/encoder.h"
#include "models/vision/builder.h"

#include <functional>
#include <string>
#include <vector>

namespace ridge::models::sound {

using core::ValueId;
using vision::Builder;
using vision::Norm;

// Whisper's encoder: two convolutions, the second with stride 2, and layers. `block`: frames that see only one another
// and share places; 0: all frames.
ValueId whisper_rows(Builder& b, int64_t frames, bool ends_normed, int64_t block = 0);
// The first `rows` of a.position_embd, repeated to `all` rows.
std::vector<float> repeated_places(Builder& b, int64_t rows, int64_t all);
ValueId halved(Builder& b, ValueId x);
// Concatenates each `count` rows, zero-padded at the end.
ValueId stacked(Builder& b, ValueId x, int64_t count);
int64_t stack_factor(const vision::Hparams& h);

// A spectrum as an image of independent blocks. Row (block * times + time) * bands + band.
struct Grid {
  int64_t blocks, times, bands;
  int64_t rows() const { return blocks * times * bands; }
};
// Which axis varies faster in a kernel.
enum class Kernel : uint8_t { times_first, bands_first };
// The 3 × 3 rows around every second time and band; updates the grid.
std::vector<int32_t> neighbourhoods(Grid& grid, Kernel order);
// Joins the bands of each time: [band][channel].
ValueId joined_bands(Builder& b, ValueId x, const Grid& grid);
ValueId each_channel(Builder& b, ValueId x, const std::string& tensor);

// Conformer layers: half a feed-forward part, attention, convolution, half a feed-forward part.
struct ConformerSpec {
  Norm norm;
  std::string attention_norm, convolution_norm;
  std::function<ValueId(ValueId x, const std::string& blk)> attention;
  std::function<ValueId(ValueId x, const std::string& blk)> convolution;
  std::function<ValueId(ValueId x, int64_t il)> ended = {}; // maps a layer's output to the next input
};
ValueId conformer_layers(Builder& b, ValueId x, const ConformerSpec& spec);

// Depthwise convolution; the last `ahead` of `taps` [channels][kernel] are for later rows.
ValueId over_time(Builder& b, ValueId x, const std::string& name, std::span<const float> taps,
                  std::span<const float> bias, int64_t ahead, core::Activation activation);

// conv_dw with as many taps before as after, then factors and shifts of the channels, and SiLU.
ValueId centred_convolution(Builder& b, ValueId x, const std::string& blk, int64_t kernel,
                            std::span<const float> factor, std::span<const float> shift);

// Scores by distance as sums of waves. Each head of q gets coefficients of cos and -sin per wave, rotated by its
// position; k has the waves at its own position. So the product depends on the distance.
struct Waves {
  std::vector<double> frequencies;
  bool has_constant = false; // one more coefficient, without a wave

  int64_t extra() const { return 2 * std::ssize(frequencies) + (has_constant ? 1 : 0); }
};
// In blocks, positions begin with the block. `matrices` [heads][extra + dim][dim] and `biases` [heads][extra + dim]
// give coefficients and the content part of q.
ValueId attend_by_distance(Builder& b, const std::array<ValueId, 3>& qkv, const std::string& blk, const Waves& waves,
                           std::span<const float> matrices, std::span<const float> biases, core::AttentionParams params,
                           bool causal);

} // namespace ridge::models::sound
