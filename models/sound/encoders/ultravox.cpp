// Ultravox: Whisper's encoder and a gated feed-forward part.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("", whisper_pieces(h, samples), "");
}

void build(Builder& b, int64_t frames) {
  constexpr float kEpsilon = 1e-6f;
  ValueId x = stacked(b, whisper_rows(b, frames, true), stack_factor(b.hparams()));
  x = b.norm(x, "mm.a.norm_pre", Norm::rms, kEpsilon, b.width_of(x));
  const int64_t both = b.rows_of("mm.a.mlp.1"), half = both / 2;
  const ValueId value = b.part_of(x, "mm.a.mlp.1", "value", 0, half, both),
                gate = b.part_of(x, "mm.a.mlp.1", "gate", half, half, both);
  x = b.emit(core::OpKind::glu, "mm.a.glu", {gate, value}, half, {}, core::ActivationParams{core::Activation::silu});
  b.tokens(b.linear(b.norm(x, "mm.a.norm_mid", Norm::rms, kEpsilon, half), "mm.a.mlp.2"));
}

} // namespace

constinit const EncoderFile encoders::ultravox = {.cut = cut, .build = build};

} // namespace ridge::models::sound
