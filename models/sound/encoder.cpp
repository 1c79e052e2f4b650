#include "models/sound/encoder.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/vision/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge::models::sound {
namespace {

std::string_view type_of(const gguf::File& file) {
  if (!file.get_bool("clip.has_audio_encoder", false))
    throw_error("{}: has no audio encoder (clip.has_audio_encoder)", file.path());
  const std::string_view of_sound = file.get_string("clip.audio.projector_type", "");
  const std::string_view type = of_sound.empty() ? file.get_string("clip.projector_type") : of_sound;
  return type == "qwen2.5o" ? "qwen2a" : type; // old name in files with both encoders
}

const Kind& kind_of(const gguf::File& file) {
  if (const std::string_view architecture = file.get_string("general.architecture"); architecture != "clip")
    throw_error("{}: architecture '{}' is not an audio encoder, expected 'clip' (an mmproj file)", file.path(),
                core::printable(architecture));
  const std::string_view type = type_of(file);
  const auto found = std::ranges::find(encoder_table(), type, &Kind::name);
  if (found == encoder_table().end())
    throw_error("{}: the audio encoder '{}' is not supported yet", file.path(), core::printable(type));
  return *found;
}

} // namespace

std::span<const Kind> encoder_table() {
  static const auto kEncoders = std::to_array<Kind>({
#define RIDGE_SOUND_ENCODER(name, file, models) {name, encoders::file, models},
#include "models/sound/encoders.def"
#undef RIDGE_SOUND_ENCODER
  });
  return kEncoders;
}

std::string encoders_as_markdown() {
  std::string text = "| encoder | models |\n| --- | --- |\n";
  for (const Kind& row : encoder_table()) text += fmt::format("| `{}` | {} |\n", row.name, row.models);
  return text;
}

Model::Model(const gguf::File& file) : file_(file), kind_(kind_of(file)) {}

std::vector<Part> Model::cut(std::span<const float> samples) const {
  return kind_.file.cut(vision::Hparams(file_, vision::Media::sound), samples);
}

vision::Encoder Model::build(int64_t frames) const {
  vision::Builder builder(file_);
  kind_.file.build(builder, frames);
  return std::move(builder).finish();
}

} // namespace ridge::models::sound
