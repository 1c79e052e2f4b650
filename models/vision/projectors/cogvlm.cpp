// CogVLM: EVA-CLIP, whose layers norm what their blocks add.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  return wrapped("", clip_square(h, picture), "");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  ValueId x = b.patches(b.hparams().patch(), 1);
  x = b.add_rows(x, "v.position_embd", b.table_with_class());
  x = b.layers(x, {.activation = b.activation(), .ends_normed = false, .norms_results = true});
  x = b.linear(b.merge(x, 1), "mm.model.fc"); // without the class
  x = b.gelu(b.norm(x, "mm.post_fc_norm", Norm::layer, kEpsilon, b.width_of(x)), "mm.gelu");
  const ValueId up = b.linear(x, "mm.up");
  x = b.emit(core::OpKind::glu, "mm.glu", {b.linear(x, "mm.gate", b.width_of(up)), up}, b.width_of(up), {},
             core::ActivationParams{core::Activation::silu});
  b.tokens(b.linear(x, "mm.down"));
  b.between_ends();
}

} // namespace

constinit const ProjectorFile projectors::cogvlm = {.cut = cut, .build = build};

} // namespace ridge::models::vision
