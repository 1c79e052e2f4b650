#include "convert/import/pictures/family.h"

#include <array>

namespace ridge::convert::import {
namespace {

struct Row {
  std::string_view hf_class, encoder;
  const PictureFamily& family;
};

constexpr auto kRows = std::to_array<Row>({
#define RIDGE_PICTURES(hf_class, encoder, object) {hf_class, encoder, picture_families::object},
#include "convert/import/pictures/families.def"
#undef RIDGE_PICTURES
});

} // namespace

const PictureFamily* find_picture_family(const Config& config) {
  const Json* encoder = config.fields().find("vision_config");
  if (!encoder || !encoder->is_object()) return nullptr;
  const std::string type = Fields(*encoder, config.path + ": vision_config").find_string("model_type").value_or("");
  for (const Row& row : kRows)
    if (row.hf_class == config.hf_class && (row.encoder.empty() || row.encoder == type)) return &row.family;
  return nullptr;
}

} // namespace ridge::convert::import
