// From a sound to rows that a language model reads in place of tokens: what an mmproj file (architecture "clip") says
// of sound. It is made as for pictures (models/vision/projector.h): a sound is cut into pieces with text around them,
// and each piece goes through the stages of an encoder.
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

inline constexpr int64_t kRate = 16000; // samples a second, of all encoders

// What an encoder's first stage takes of a sound: the loudness of bands over time, or the samples themselves.
struct Frames {
  int64_t count = 0, width = 0;
  std::vector<float> values = {}; // [count][width]
};

// What stands in a prompt for a sound, in order: text, or what becomes tokens.
struct Part {
  std::string text = {};
  std::optional<Frames> frames = {};
};

// What an encoder's file defines.
struct EncoderFile {
  std::vector<Part> (*cut)(const vision::Hparams&, std::span<const float> samples);
  void (*build)(vision::Builder&, int64_t frames);
};

struct Kind {
  std::string_view name; // clip.projector_type or clip.audio.projector_type
  const EncoderFile& file;
  std::string_view models; // for people
};

std::span<const Kind> encoder_table(); // rows of encoders.def in their order
std::string encoders_as_markdown();    // the table of docs/sound.md

// The encoder of sound that an mmproj file has.
class Model {
 public:
  // The file must outlive it. Throws Error where the file has none, or one of an unknown kind.
  explicit Model(const gguf::File& file);

  const Kind& kind() const { return kind_; }
  std::vector<Part> cut(std::span<const float> samples) const; // kRate a second, at least one
  // Throws Error for a tensor that is missing or has another shape, a hyperparameter out of range, a tensor that no op
  // uses, and more frames than can be encoded at once.
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
