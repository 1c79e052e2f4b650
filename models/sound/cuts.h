// Ways to cut audio that encoders share.
#pragma once

#include "models/sound/encoder.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::models::sound {

std::vector<Part> wrapped(const std::string& before, std::vector<Frames> pieces, const std::string& behind);

int64_t bands_of(const vision::Hparams& h);

// A frame per 10 ms, padded with silence to `frames`.
Frames whisper_spectrum(std::span<const float> samples, int64_t bands, int64_t frames, bool mirrors_end);

// Pieces of 30 seconds, the last padded with silence.
inline constexpr int64_t kWhisperFrames = 3000;
std::vector<Frames> whisper_pieces(const vision::Hparams& h, std::span<const float> samples);

// Frames [first, first + count), zero-padded.
Frames part_of(const Frames& all, int64_t first, int64_t count);

std::vector<std::span<const float>> in_pieces(std::span<const float> samples, int64_t seconds);

} // namespace ridge::models::sound
