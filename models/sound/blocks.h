// Parts of encoders of sound that several families share.
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

// Whisper's encoder: two convolutions over time, of which the second halves the number of frames, and layers. `block`:
// so many frames see only one another, and places begin again behind them; 0: all see all.
ValueId whisper_rows(Builder& b, int64_t frames, bool ends_normed, int64_t block = 0);
// The first `rows` of a.position_embd for each block of so many, `all` in all.
std::vector<float> repeated_places(Builder& b, int64_t rows, int64_t all);
// The mean of each two rows.
ValueId halved(Builder& b, ValueId x);
// Rows of `count` rows side by side, zeros behind the last one.
ValueId stacked(Builder& b, ValueId x, int64_t count);
int64_t stack_factor(const vision::Hparams& h);

// Rows of a spectrum seen as a picture: blocks, which see nothing of one another, of so many times and bands. Row
// (block * times + time) * bands + band.
struct Grid {
  int64_t blocks, times, bands;
  int64_t rows() const { return blocks * times * bands; }
};
// Which of two directions of a kernel's nine numbers is the faster one.
enum class Kernel : uint8_t { times_first, bands_first };
// The 3 × 3 rows around every second time and band; the grid becomes theirs.
std::vector<int32_t> around(Grid& grid, Kernel order);
// Rows that are all bands of a time, [band][channel].
ValueId joined_bands(Builder& b, ValueId x, const Grid& grid);
// A convolution of each channel with its own nine numbers, of rows that around() gave, with its bias.
ValueId each_channel(Builder& b, ValueId x, const std::string& tensor);

// The layers of a conformer: half a feed-forward part, attention, a convolution over time, half a feed-forward part.
struct ConformerSpec {
  Norm norm;
  std::string attention_norm, convolution_norm;                          // tensors before those parts
  std::function<ValueId(ValueId x, const std::string& blk)> attention;   // of what is normed
  std::function<ValueId(ValueId x, const std::string& blk)> convolution; // of what is gated, with its activation
};
ValueId conformer_layers(Builder& b, ValueId x, const ConformerSpec& spec);

// A convolution of each channel over time. `taps` [channels][kernel], of which the last `ahead` are for later rows.
ValueId over_time(Builder& b, ValueId x, const std::string& name, std::span<const float> taps,
                  std::span<const float> bias, int64_t ahead, core::Activation activation);

// Scores by distance as sums of waves. Each head of q gets coefficients of cos and -sin, two for each wave, which its
// place turns; k has the waves at its own place. So the product depends on the distance, place of q - place of k.
struct Waves {
  std::vector<double> frequencies; // radians a row
  bool has_constant = false;       // a coefficient more, of no wave

  int64_t extra() const { return 2 * std::ssize(frequencies) + (has_constant ? 1 : 0); } // elements of a head
};
// `matrices` [heads][extra + dim][dim] and `biases` [heads][extra + dim] make coefficients and what counts by content
// of each head of q.
ValueId attend_by_distance(Builder& b, const std::array<ValueId, 3>& qkv, const std::string& blk, const Waves& waves,
                           std::span<const float> matrices, std::span<const float> biases, core::AttentionParams params,
                           bool causal);

} // namespace ridge::models::sound
