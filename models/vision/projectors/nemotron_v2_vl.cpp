// Nemotron Nano V2 VL: RADIO's encoder.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  return wrapped("<img>", media::resize_padded(picture, side, side, media::Filter::bicubic), "</img>");
}

void build(Builder& b) {
  constexpr float kEpsilon = 1e-5f;
  constexpr int64_t kMaxRegisters = 4096;
  const Hparams& h = b.hparams();
  const int64_t width = h.width(), registers = b.tensor("v.class_embd").weights() / width;
  if (registers > kMaxRegisters)
    throw_error("{}: tensor v.class_embd has {} rows, expected at most {}", h.path(), registers, kMaxRegisters);
  ValueId x = b.patches(h.patch(), registers);
  std::vector<float> table = b.values("v.position_embd.weight", b.columns() * b.lines() * width);
  const std::vector<float> own = b.values("v.class_embd", registers * width);
  table.insert(table.end(), own.begin(), own.end());
  x = b.add_rows(x, "v.position_embd", table);
  x = b.merge(b.layers(x, {.activation = b.activation()}), h.count_or("projector.scale_factor", 1, 64));
  x = b.linear(b.norm(x, "mm.model.mlp.0", Norm::rms, kEpsilon, b.width_of(x)), "mm.model.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.relu", {core::Activation::relu_squared}), "mm.model.mlp.3"));
}

} // namespace

constinit const ProjectorFile projectors::nemotron_v2_vl = {.cut = cut, .build = build};

} // namespace ridge::models::vision
