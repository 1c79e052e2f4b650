// Kimi-VL.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("projector.scale_factor", 1, 64); }

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|media_start|>", dynamic_tile(picture, {side_of(h) * h.patch(), 8, 1024}), "<|media_end|>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::antialiased));
  x = b.layers(x, {.activation = b.activation(), .rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 2})});
  x = b.norm(b.merge(x, side_of(h)), "mm.input_norm", Norm::layer, kEpsilon, h.width());
  b.tokens(b.linear(b.gelu(b.linear(x, "mm.1"), "mm.gelu"), "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::kimivl = {.cut = cut, .build = build};

} // namespace ridge::models::vision
