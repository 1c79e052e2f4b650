// GLM-ASR: Whisper's encoder; a row of the file before and after the tokens.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("", whisper_pieces(h, samples), "");
}

void build(Builder& b, int64_t frames) {
  ValueId x = b.norm(whisper_rows(b, frames, true), "mm.a.norm_pre", Norm::layer);
  x = b.linear(stacked(b, x, stack_factor(b.hparams())), "mm.a.mlp.1");
  x = b.linear(b.activate(x, "mm.a.gelu", {core::Activation::gelu_erf}), "mm.a.mlp.2");
  b.tokens(x);
  b.between_ends();
}

} // namespace

constinit const EncoderFile encoders::glma = {.cut = cut, .build = build};

} // namespace ridge::models::sound
