// Pixtral and Mistral Small. A row ends each line but the last.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("spatial_merge_size", 1, 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("", dynamic_tile(picture, {side_of(h) * h.patch(), 8, 1024}), "[IMG_END]");
}

void build(Builder& b) {
  const int64_t side = side_of(b.hparams());
  const ValueId row = pixtral_rows(b, side);
  b.tokens(row);
  Encoder& encoder = b.encoder();
  encoder.further = b.values("v.token_embd.img_break", b.width_of(row));
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < std::ssize(encoder.tokens); ++i) {
    if (i > 0 && i % encoder.columns == 0) tokens.push_back(-1);
    tokens.push_back(i);
  }
  encoder.tokens = std::move(tokens);
  encoder.columns = encoder.lines = 0;
}

} // namespace

constinit const ProjectorFile projectors::pixtral = {.cut = cut, .build = build};

} // namespace ridge::models::vision
