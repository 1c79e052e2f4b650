// Audio Flamingo 3.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("<sound>", whisper_pieces(h, samples), "");
}

void build(Builder& b, int64_t frames) {
  const ValueId x = b.norm(halved(b, whisper_rows(b, frames, false)), "a.post_ln", Norm::layer);
  b.tokens(b.linear(b.activate(b.linear(x, "mm.a.mlp.1"), "mm.a.gelu", {core::Activation::gelu_erf}), "mm.a.mlp.2"));
}

} // namespace

constinit const EncoderFile encoders::musicflamingo = {.cut = cut, .build = build};

} // namespace ridge::models::sound
