// dots.ocr.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count("projector.scale_factor", 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|img|>", pixel_bound_tile(h, picture, side_of(h) * h.patch()), "<|endofimg|>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-6f;
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.layers(
      x, {.norm = Norm::rms, .activation = b.activation(), .rope = b.rope({core::RopeStyle::split, h.head_dim()})});
  x = b.norm(x, "mm.post_norm", Norm::rms);
  x = b.norm(x, "mm.input_norm", Norm::layer, kEpsilon, h.width());
  x = b.linear(b.merge(x, side_of(h)), "mm.0");
  b.tokens(b.linear(b.activate(x, "mm.gelu", {core::Activation::gelu_erf}), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::dots_ocr = {.cut = cut, .build = build};

} // namespace ridge::models::vision
