// Gemma 4 without an encoder: a matrix times 40 ms of normed samples.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <algorithm>
#include <numeric>

namespace ridge::models::sound {
namespace {

constexpr int64_t kSamples = 640, kSeconds = 30;

std::vector<Part> cut(const vision::Hparams&, std::span<const float> samples) {
  std::vector<Frames> pieces;
  for (const std::span<const float> piece : in_pieces(samples, kSeconds)) {
    Frames& frames = pieces.emplace_back(Frames{(std::ssize(piece) + kSamples - 1) / kSamples, kSamples, {}});
    frames.values.assign(piece.begin(), piece.end());
    frames.values.resize(frames.count * kSamples);
  }
  return wrapped("<|audio>", std::move(pieces), "<audio|>");
}

void build(Builder& b, int64_t frames) {
  std::vector<int32_t> all(frames);
  std::iota(all.begin(), all.end(), 0);
  b.use_epsilon(1e-6f);
  const ValueId x = b.begin_given(kSamples, 1, std::move(all));
  b.tokens(b.linear(b.unit_norm(x, "mm.a.norm", kSamples), "mm.a.input_projection"));
}

} // namespace

constinit const EncoderFile encoders::gemma4ua = {.cut = cut, .build = build};

} // namespace ridge::models::sound
