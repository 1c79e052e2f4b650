#include "models/vision/projector.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/vision/builder.h"

#include <algorithm>

namespace ridge::models::vision {
namespace {

// Files may have encoders of images and of audio.
std::string_view type_of(const gguf::File& file) {
  if (!file.get_bool("clip.has_vision_encoder", false))
    throw_error("{}: has no image encoder (clip.has_vision_encoder)", file.path());
  const std::string_view of_pictures = file.get_string("clip.vision.projector_type", "");
  std::string_view type = of_pictures.empty() ? file.get_string("clip.projector_type") : of_pictures;
  return type == "qwen2.5o" ? "qwen2.5vl_merger" : type; // old name in files with both
}

const Projector& projector_of(const gguf::File& file) {
  if (const std::string_view architecture = file.get_string("general.architecture"); architecture != "clip")
    throw_error("{}: architecture '{}' is not an image encoder, expected 'clip' (an mmproj file)", file.path(),
                core::printable(architecture));
  const std::string_view type = type_of(file);
  const auto found = std::ranges::find(projector_table(), type, &Projector::name);
  if (found == projector_table().end())
    throw_error("{}: the projector '{}' is not supported yet", file.path(), core::printable(type));
  return *found;
}

} // namespace

std::span<const Projector> projector_table() {
  static const auto kProjectors = std::to_array<Projector>({
#define RIDGE_PROJECTOR(name, file, models) {name, projectors::file, models},
#include "models/vision/projectors.def"
#undef RIDGE_PROJECTOR
  });
  return kProjectors;
}

std::string projectors_as_markdown() {
  std::string text = "| projector | models |\n| --- | --- |\n";
  for (const Projector& row : projector_table()) text += fmt::format("| `{}` | {} |\n", row.name, row.models);
  return text;
}

Model::Model(const gguf::File& file)
    : file_(file), projector_(projector_of(file)), mean_(Hparams(file).colors("image_mean")),
      deviation_(Hparams(file).colors("image_std")) {
  for (const float deviation : deviation_)
    if (deviation == 0) throw_error("{}: {} has 0", file.path(), Hparams(file).key("image_std"));
}

std::vector<Part> Model::cut(const media::Picture& picture) const {
  return projector_.file.cut(Hparams(file_), picture);
}

Encoder Model::build(int64_t width, int64_t height) const {
  Builder builder(file_, width, height);
  projector_.file.build(builder);
  return std::move(builder).finish();
}

} // namespace ridge::models::vision
