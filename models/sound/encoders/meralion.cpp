// MERaLiON: Whisper's encoder and a gated adaptor of joined rows.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("", whisper_pieces(h, samples), "");
}

void build(Builder& b, int64_t frames) {
  constexpr core::ActivationParams kSilu = {core::Activation::silu};
  ValueId x = stacked(b, whisper_rows(b, frames, true), stack_factor(b.hparams()));
  x = b.linear(b.norm(x, "mm.a.norm_pre", Norm::layer), "mm.a.mlp.0");
  x = b.activate(x, "mm.a.silu", kSilu);
  const ValueId gate = b.linear(x, "mm.a.mlp.1"), value = b.linear(x, "mm.a.mlp.2", b.width_of(gate));
  b.tokens(b.linear(b.emit(core::OpKind::glu, "mm.a.glu", {gate, value}, b.width_of(gate), {}, kSilu), "mm.a.mlp.3"));
}

} // namespace

constinit const EncoderFile encoders::meralion = {.cut = cut, .build = build};

} // namespace ridge::models::sound
