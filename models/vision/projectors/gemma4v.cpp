// Gemma 4, with clamped matrices.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("projector.scale_factor", 3, 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|image>", dynamic_tile(picture, {side_of(h) * h.patch(), 70, 1120}), "<image|>");
}

// Each half of a head rotates separately; with reordered quarters one rotation suffices.
std::vector<int32_t> quarters(int64_t dim) {
  std::vector<int32_t> order;
  for (const int64_t quarter : {0, 2, 1, 3})
    for (int64_t i = 0; i < dim / 4; ++i) order.push_back(static_cast<int32_t>(quarter * (dim / 4) + i));
  return order;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t side = side_of(h), width = h.width();
  b.encoder().pixel_scale = 2;
  b.encoder().pixel_shift = -1;
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.table_by_axes());
  LayerSpec spec = {.norm = Norm::rms, .activation = b.activation(), .v_norm = true, .scale = 1};
  spec.rope = b.rope({core::RopeStyle::split, h.head_dim(), 2, 100});
  spec.head_order = quarters(h.head_dim());
  x = b.merge(b.layers(x, spec), side);
  x = b.fold(x, "mm.mean", width, std::sqrt(static_cast<double>(width)) / static_cast<double>(side * side));
  if (b.has("v.std_bias")) {
    std::vector<float> bias = b.values("v.std_bias", width);
    for (float& value : bias) value = -value;
    x = b.times(b.add_vector(x, "v.std_bias", bias), "v.std_scale");
  }
  x = b.unit_norm(x, "mm.norm", width);
  b.tokens(b.linear(x, "mm.input_projection"));
}

} // namespace

constinit const ProjectorFile projectors::gemma4v = {.cut = cut, .build = build, .sees_ahead = gemma4_sees_ahead};

} // namespace ridge::models::vision
