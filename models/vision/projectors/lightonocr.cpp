// LightOnOCR: Pixtral without line end rows.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("spatial_merge_size", 1, 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t longest = h.count_or("preproc_image_size", h.image_size(), 8192), factor = side_of(h) * h.patch();
  const float scale = static_cast<float>(longest) / static_cast<float>(std::max(picture.width, picture.height));
  const auto side = [&](int64_t own) {
    const float exact = static_cast<float>(own) * scale / static_cast<float>(factor);
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(exact))) * factor;
  };
  return wrapped("<|im_start|>",
                 media::resize_padded(picture, side(picture.width), side(picture.height), media::Filter::bicubic),
                 "<|im_end|>");
}

void build(Builder& b) { b.tokens(pixtral_rows(b, side_of(b.hparams()))); }

} // namespace

constinit const ProjectorFile projectors::lightonocr = {.cut = cut, .build = build};

} // namespace ridge::models::vision
