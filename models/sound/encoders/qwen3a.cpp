// Qwen3-ASR and Qwen3-Omni.
#include "models/sound/blocks.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::models::sound {
namespace {

constexpr int64_t kBlock = 100, kWindow = 8 * kBlock;

std::vector<Part> cut(const vision::Hparams& h, std::span<const float> samples) {
  constexpr int64_t kHop = 160;
  const int64_t count = std::ssize(samples) / kHop + 1;
  const Frames all = whisper_spectrum(samples, bands_of(h), count, true);
  std::vector<Frames> pieces;
  for (int64_t first = 0; first < count; first += kWindow) {
    const int64_t there = std::min(count - first, kWindow);
    pieces.push_back(part_of(all, first, (there + kBlock - 1) / kBlock * kBlock));
  }
  return wrapped("<|audio_start|>", std::move(pieces), "<|audio_end|>");
}

void build(Builder& b, int64_t frames) {
  constexpr core::ActivationParams kGelu = {core::Activation::gelu_erf};
  constexpr int64_t kTaps = 9;
  Grid grid = {frames / kBlock, kBlock, bands_of(b.hparams())};
  ValueId x = b.begin_given(1, kTaps, neighbourhoods(grid, Kernel::times_first));
  for (int i = 1; i <= 3; ++i) {
    const std::string name = fmt::format("a.conv2d.{}", i);
    if (i > 1) x = b.begin_stage(x, kTaps, neighbourhoods(grid, Kernel::times_first));
    x = b.activate(b.convolution(x, name, kTaps), name + ".gelu", kGelu);
  }
  x = b.channels_first(joined_bands(b, x, grid), "a.conv_out.order", grid.bands);
  x = b.linear(x, "a.conv_out", b.hparams().width());
  x = b.add_rows(x, "a.position_embd", repeated_places(b, grid.times, grid.blocks * grid.times));
  x = b.linear(b.layers(x, {.activation = kGelu}), "mm.a.mlp.1");
  b.tokens(b.linear(b.activate(x, "mm.a.gelu", kGelu), "mm.a.mlp.2"));
}

} // namespace

constinit const EncoderFile encoders::qwen3a = {.cut = cut, .build = build};

} // namespace ridge::models::sound
