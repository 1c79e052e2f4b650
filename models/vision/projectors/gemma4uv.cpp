// Gemma 4 without an encoder.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("projector.scale_factor", 3, 64) * h.patch(); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|image>", dynamic_tile(picture, {side_of(h), 70, 1120}), "<image|>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const auto norm = [&](ValueId x, const char* tensor) {
    return b.norm(x, tensor, Norm::layer, kEpsilon, b.width_of(x));
  };
  ValueId x = b.patches(side_of(b.hparams()), 0, [&](ValueId pixels) { return norm(pixels, "v.patch_norm.1"); });
  x = norm(x, "v.patch_norm.2");
  x = norm(b.add_to_patches(x, "v.position_embd", b.table_by_axes()), "v.patch_norm.3");
  x = b.unit_norm(b.merge(x, 1), "mm.norm", b.hparams().width());
  b.tokens(b.linear(x, "mm.input_projection"));
}

} // namespace

constinit const ProjectorFile projectors::gemma4uv = {.cut = cut, .build = build, .sees_ahead = gemma4_sees_ahead};

} // namespace ridge::models::vision
