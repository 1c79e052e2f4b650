// Gemma 3: SigLIP with fixed image size.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  return wrapped("<start_of_image>", media::resize_padded(picture, side, side, media::Filter::bilinear),
                 "<end_of_image>");
}

// The file stores this matrix as [inputs][outputs].
ValueId projection(Builder& b, ValueId x, const std::string& name) {
  const gguf::Tensor& tensor = b.tensor(name + ".weight");
  const int64_t inputs = b.width_of(x), outputs = tensor.dims[0];
  const std::vector<float> stored = b.values(name + ".weight", inputs * outputs);
  std::vector<float> turned(stored.size());
  for (int64_t i = 0; i < inputs; ++i)
    for (int64_t o = 0; o < outputs; ++o) turned[o * inputs + i] = stored[i * outputs + o];
  return b.emit(core::OpKind::linear, name, {x}, outputs, {b.constant(name, turned, outputs)});
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.values("v.position_embd.weight", b.columns() * b.lines() * h.width()));
  x = b.layers(x, {.activation = b.activation(), .may_swap_ffn = true});
  const int64_t side = h.count_or("projector.scale_factor", 4, 64);
  x = b.merge(x, side);
  x = b.fold(x, "mm.mean", h.width(), 1 / static_cast<double>(side * side));
  x = b.norm(x, "mm.soft_emb_norm", Norm::rms);
  b.tokens(projection(b, x, "mm.input_projection"));
}

} // namespace

constinit const ProjectorFile projectors::gemma3 = {
    .cut = cut, .build = build, .sees_ahead = [](int64_t) { return true; }};

} // namespace ridge::models::vision
