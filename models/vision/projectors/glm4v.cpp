// GLM-4.1V, GLM-4.5V and GLM-OCR.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("<|begin_of_image|>", dynamic_tile(picture, {qwen_side(h) * h.patch(), 8, 4096}), "<|end_of_image|>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  const Hparams& h = b.hparams();
  const int64_t side = qwen_side(h);
  ValueId x = b.patches(h.patch());
  if (b.has("v.norm_embd.weight")) x = b.norm(x, "v.norm_embd", Norm::rms);
  if (b.has("v.position_embd.weight")) x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::cubic));
  x = b.layers(
      x, {.norm = Norm::rms, .activation = b.activation(), .rope = b.rope({core::RopeStyle::split, h.head_dim()})});
  x = b.convolution(b.merge(x, side), "mm.patch_merger", side * side);
  x = b.linear(x, "mm.model.fc");
  x = b.norm(x, "mm.post_norm", Norm::layer, kEpsilon, b.width_of(x));
  x = b.activate(x, "mm.gelu", {core::Activation::gelu_erf});
  const ValueId up = b.linear(x, "mm.up");
  x = b.emit(core::OpKind::glu, "mm.glu", {b.linear(x, "mm.gate", b.width_of(up)), up}, b.width_of(up), {},
             b.activation());
  b.tokens(b.linear(x, "mm.down"));
}

} // namespace

constinit const ProjectorFile projectors::glm4v = {.cut = cut, .build = build};

} // namespace ridge::models::vision
