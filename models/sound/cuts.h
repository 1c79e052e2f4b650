// What is taken of a sound for encoders: what several families share.
#pragma once

#include "models/sound/encoder.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::models::sound {

// Pieces one behind the other, and what stands around all of them.
std::vector<Part> wrapped(const std::string& before, std::vector<Frames> pieces, const std::string& behind);

int64_t bands_of(const vision::Hparams& h); // num_mel_bins

// Whisper's spectrum: a frame for each hundredth of a second. `frames`: so many, silent ones behind the sound.
Frames whisper_spectrum(std::span<const float> samples, int64_t bands, int64_t frames, bool mirrors_end);

// Whisper's pieces of 30 seconds, the last one filled with silence.
inline constexpr int64_t kWhisperFrames = 3000;
std::vector<Frames> whisper_pieces(const vision::Hparams& h, std::span<const float> samples);

// Frames [first, first + count) of a sound, zeros behind its last one.
Frames part_of(const Frames& all, int64_t first, int64_t count);

// So many of the samples each, the last ones fewer.
std::vector<std::span<const float>> in_pieces(std::span<const float> samples, int64_t seconds);

} // namespace ridge::models::sound
