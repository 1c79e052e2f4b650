#include "convert/import/encoders/family.h"

#include <array>

namespace ridge::convert::import {
namespace {

struct Row {
  std::string_view hf_class, encoder;
  const EncoderFamily& family;
};

constexpr auto kRows = std::to_array<Row>({
#define RIDGE_ENCODER(hf_class, encoder, object) {hf_class, encoder, families::object},
#include "convert/import/encoders/families.def"
#undef RIDGE_ENCODER
});

} // namespace

const EncoderFamily* find_family(const Config& config, models::vision::Media media) {
  for (const Row& row : kRows) {
    if (row.family.media != media || row.hf_class != config.hf_class) continue;
    const Json* section = config.fields().find(row.family.section);
    if (!section || !section->is_object()) continue;
    const Fields fields(*section, config.fields().where(row.family.section));
    if (row.encoder.empty() || row.encoder == fields.find_string("model_type").value_or("")) return &row.family;
  }
  return nullptr;
}

} // namespace ridge::convert::import
