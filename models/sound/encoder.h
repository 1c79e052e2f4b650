// Encodes audio into rows that replace tokens, from an mmproj file. As for images (models/vision/projector.h), audio is
// cut into pieces with text around them, which go through stages.
#pragma once

#include "gguf/gguf.h"
#include "models/vision/projector.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models::sound {

inline constexpr int64_t kRate = 16000;

// Input of the first stage: energies of bands over time, or samples.
struct Frames {
  int64_t count = 0, width = 0;
  std::vector<float> values = {}; // [count][width]
};

struct Part {
  std::string text = {};
  std::optional<Frames> frames = {};
};

struct EncoderFile {
  std::vector<Part> (*cut)(const vision::Hparams&, std::span<const float> samples);
  void (*build)(vision::Builder&, int64_t frames);
};

struct Kind {
  std::string_view name;
  const EncoderFile& file;
  std::string_view models;
};

std::span<const Kind> encoder_table();
std::string encoders_as_markdown();

// The audio encoder of an mmproj file.
class Model {
 public:
  // The file must outlive it. Throws Error if it has no known audio encoder.
  explicit Model(const gguf::File& file);

  const Kind& kind() const { return kind_; }
  std::vector<Part> cut(std::span<const float> samples) const;
  // Throws Error for missing, misshapen or unused tensors, bad hyperparameters, or too many frames.
  vision::Encoder build(int64_t frames) const;

 private:
  const gguf::File& file_;
  const Kind& kind_;
};

namespace encoders {
#define RIDGE_SOUND_ENCODER(name, file, models) extern const EncoderFile file;
#include "models/sound/encoders.def"
#undef RIDGE_SOUND_ENCODER
} // namespace encoders

} // namespace ridge::models::sound
