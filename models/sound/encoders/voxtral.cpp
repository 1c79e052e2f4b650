// Voxtral. Without projector.pool, the mean of row pairs is taken as in other programs; the model was trained without.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("[BEGIN_AUDIO]", whisper_pieces(h, samples), "");
}

void build(Builder& b, int64_t frames) {
  constexpr int64_t kUsual = 2;
  ValueId x = whisper_rows(b, frames, false);
  if (b.hparams().count_or("projector.pool", kUsual, kUsual) == kUsual) x = halved(b, x);
  x = b.norm(x, "a.post_ln", Norm::layer);
  x = b.linear(stacked(b, x, stack_factor(b.hparams())), "mm.a.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.a.gelu", {core::Activation::gelu_erf}), "mm.a.mlp.2"));
}

} // namespace

constinit const EncoderFile encoders::voxtral = {.cut = cut, .build = build};

} // namespace ridge::models::sound
