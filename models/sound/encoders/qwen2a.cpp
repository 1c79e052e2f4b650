// Qwen2-Audio and Qwen2.5-Omni, whose blocks of chunk_size frames see only themselves. Without that key, files of other
// programs are read like Qwen2-Audio.
#include "core/error.h"
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <algorithm>
#include <numeric>

namespace ridge::models::sound {
namespace {

int64_t block_of(const vision::Hparams& h) {
  const int64_t block = h.count_or("chunk_size", 0, kWhisperFrames, 0);
  if (block % 2 != 0) core::throw_error("{}: {} is {}, expected an even number", h.path(), h.key("chunk_size"), block);
  return block;
}

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  std::vector<Frames> pieces;
  if (const int64_t block = block_of(h); block == 0) {
    pieces = whisper_pieces(h, samples);
  } else {                                  // not filled up, since blocks see nothing of one another
    constexpr int64_t kHop = 160, kMin = 3; // of a token
    const int64_t count = std::max((std::ssize(samples) + kHop - 1) / kHop, kMin),
                  piece = kWhisperFrames / block * block;
    const Frames all = whisper_spectrum(samples, bands_of(h), count, false);
    for (int64_t first = 0; first + kMin <= count; first += piece)
      pieces.push_back(part_of(all, first, std::min(piece, count - first)));
  }
  return wrapped("<|audio_bos|>", std::move(pieces), "<|audio_eos|>");
}

void build(Builder& b, int64_t frames) {
  const int64_t block = block_of(b.hparams());
  ValueId x = whisper_rows(b, frames, false, block);
  if (block == 0) {
    x = halved(b, x);
  } else { // a last row alone is dropped
    const int64_t width = b.width_of(x);
    std::vector<int32_t> from((frames + 1) / 2 / 2 * 2);
    std::iota(from.begin(), from.end(), 0);
    x = b.fold(b.begin_stage(x, 2, std::move(from)), "mm.a.mean", width, 0.5);
  }
  b.tokens(b.linear(b.norm(x, "a.post_ln", Norm::layer), "mm.a.fc"));
}

} // namespace

constinit const EncoderFile encoders::qwen2a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
