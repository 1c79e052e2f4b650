// Parts of FastConformer, which LFM2-Audio and Parakeet share: a row covers 80 ms, all rows see each other.
#pragma once

#include "media/sound/spectrum.h"
#include "models/sound/blocks.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::models::sound {

// Samples of a transform, and of the window in its middle.
inline constexpr int64_t kFastTransform = 512, kFastWindow = 400;

// What frames after the last whole one become.
enum class LastFrames : uint8_t { zero, normalized };
// The spectrum of emphasized high tones, each band normalized to mean 0 and deviation 1. Throws Error for more than two
// minutes. `window` [kFastTransform].
Frames emphasized_spectrum(const vision::Hparams& h, std::span<const float> samples, std::span<const double> window,
                           media::SpectrumSpec spec, LastFrames last);

// Three convolutions halve times and bands, then a.pre_encode.out.
ValueId subsampled(Builder& b, int64_t frames, int64_t width);

// Transformer-XL: score = (q + u) · k + (q + v) · W position; positions interleave sines and cosines. Without the
// output matrix.
ValueId attend_by_position(Builder& b, ValueId x, const std::string& blk, int64_t width);

} // namespace ridge::models::sound
