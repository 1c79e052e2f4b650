// Qwen2-Audio and Qwen2.5-Omni.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

namespace ridge::models::sound {
namespace {

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  return wrapped("<|audio_bos|>", whisper_pieces(h, samples), "<|audio_eos|>");
}

void build(Builder& b, int64_t frames) {
  const ValueId x = halved(b, whisper_rows(b, frames, false));
  b.tokens(b.linear(b.norm(x, "a.post_ln", Norm::layer), "mm.a.fc"));
}

} // namespace

constinit const EncoderFile encoders::qwen2a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
