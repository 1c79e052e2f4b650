#include "models/sound/blocks.h"

#include "core/error.h"
#include "models/sound/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge::models::sound {

using core::OpKind;

namespace {

constexpr core::ActivationParams kGelu = {core::Activation::gelu_erf};

// Three rows around every `step`th of `rows`, of its block.
std::vector<int32_t> around_in_time(int64_t rows, int64_t step, int64_t block) {
  std::vector<int32_t> from;
  for (int64_t t = 0; t < rows; t += step) {
    const int64_t begin = t / block * block, end = std::min(begin + block, rows);
    for (const int64_t at : {t - 1, t, t + 1}) from.push_back(at >= begin && at < end ? static_cast<int32_t>(at) : -1);
  }
  return from;
}

std::array<ValueId, 2> halves(Builder& b, ValueId x, const std::string& name) {
  const int64_t width = b.width_of(x), half = width / 2;
  std::array<ValueId, 2> parts{};
  for (int64_t i = 0; i < 2; ++i) {
    std::vector<int32_t> order(half);
    std::iota(order.begin(), order.end(), static_cast<int32_t>(i * half));
    parts[i] = b.permute(x, fmt::format("{} half {}", name, i + 1), order, width);
  }
  return parts;
}

} // namespace

ValueId whisper_rows(Builder& b, int64_t frames, bool ends_normed, int64_t block) {
  const int64_t bands = bands_of(b.hparams()), rows = (frames + 1) / 2, whole = block > 0 ? block : frames;
  ValueId x = b.begin_given(bands, 3, around_in_time(frames, 1, whole));
  x = b.activate(b.convolution(x, "a.conv1d.1", 3), "a.conv1d.1.gelu", kGelu);
  x = b.begin_stage(x, 3, around_in_time(frames, 2, whole));
  x = b.activate(b.convolution(x, "a.conv1d.2", 3), "a.conv1d.2.gelu", kGelu);
  vision::LayerSpec spec = {.activation = kGelu, .ends_normed = ends_normed};
  if (block == 0)
    return b.layers(b.add_rows(x, "a.position_embd", b.values("a.position_embd.weight", rows * b.width_of(x))), spec);
  spec.window = block / 2;
  spec.in_blocks = [](int64_t) { return true; };
  std::vector<int32_t>& ends = b.encoder().stages.back().block_ends;
  for (int64_t row = 0; row < rows; ++row)
    ends.push_back(static_cast<int32_t>(std::min((row / spec.window + 1) * spec.window, rows)));
  return b.layers(b.add_rows(x, "a.position_embd", repeated_places(b, spec.window, rows)), spec);
}

std::vector<float> repeated_places(Builder& b, int64_t rows, int64_t all) {
  const gguf::Tensor& table = b.tensor("a.position_embd.weight");
  const int64_t width = b.hparams().width();
  if (table.dims[0] != width || table.dims[1] < rows)
    core::throw_error("{}: tensor {} has shape [{}, {}], expected at least {} rows of {}", b.hparams().path(),
                      table.name, table.dims[0], table.dims[1], rows, width);
  const std::vector<float> block = b.values("a.position_embd.weight", table.weights());
  std::vector<float> made;
  made.reserve(all * width);
  for (int64_t first = 0; first < all; first += rows)
    made.insert(made.end(), block.begin(), block.begin() + std::min(rows, all - first) * width);
  return made;
}

ValueId halved(Builder& b, ValueId x) {
  const int64_t width = b.width_of(x);
  return b.fold(stacked(b, x, 2), "mm.a.mean", width, 0.5);
}

ValueId stacked(Builder& b, ValueId x, int64_t count) {
  const int64_t rows = std::ssize(b.from()) / b.encoder().stages.back().group;
  std::vector<int32_t> from((rows + count - 1) / count * count, -1);
  std::iota(from.begin(), from.begin() + rows, 0);
  return b.begin_stage(x, count, std::move(from));
}

int64_t stack_factor(const vision::Hparams& h) {
  constexpr int64_t kMax = 64;
  return h.count("projector.stack_factor", kMax);
}

std::vector<int32_t> neighbourhoods(Grid& grid, Kernel order) {
  std::vector<int32_t> from;
  const auto row_at = [&](int64_t block, int64_t time, int64_t band) {
    const bool inside = time >= 0 && band >= 0 && time < grid.times && band < grid.bands;
    return inside ? static_cast<int32_t>((block * grid.times + time) * grid.bands + band) : -1;
  };
  for (int64_t block = 0; block < grid.blocks; ++block)
    for (int64_t time = 0; time < grid.times; time += 2)
      for (int64_t band = 0; band < grid.bands; band += 2)
        for (int64_t slow = -1; slow <= 1; ++slow)
          for (int64_t fast = -1; fast <= 1; ++fast)
            from.push_back(order == Kernel::times_first ? row_at(block, time + fast, band + slow)
                                                        : row_at(block, time + slow, band + fast));
  grid = {grid.blocks, (grid.times + 1) / 2, (grid.bands + 1) / 2};
  return from;
}

ValueId joined_bands(Builder& b, ValueId x, const Grid& grid) {
  std::vector<int32_t> from(grid.rows());
  std::iota(from.begin(), from.end(), 0);
  return b.begin_stage(x, grid.bands, std::move(from));
}

ValueId each_channel(Builder& b, ValueId x, const std::string& tensor) {
  constexpr int64_t kTaps = 9;
  const int64_t channels = b.width_of(x) / kTaps;
  const std::vector<float> kernel = b.values(tensor + ".weight", kTaps * channels);
  std::vector<float> factors(kTaps * channels);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < kTaps; ++tap) factors[tap * channels + c] = kernel[c * kTaps + tap];
  x = b.fold(b.times(x, tensor, factors), tensor + ".sum", channels, 1);
  return b.add_vector(x, tensor + ".bias", b.values(tensor + ".bias", channels));
}

ValueId conformer_layers(Builder& b, ValueId x, const ConformerSpec& spec) {
  const int64_t width = b.width_of(x);
  constexpr float kHalf = 0.5f;
  const auto normed = [&](ValueId value, const std::string& tensor) { return b.norm(value, tensor, spec.norm); };
  const auto if_normed = [&](ValueId value, const std::string& tensor) {
    return b.has(tensor + ".weight") ? normed(value, tensor) : value;
  };
  const auto half_ffn = [&](ValueId value, const std::string& blk, const std::string& which) {
    ValueId part = b.linear(normed(value, blk + "ffn_norm" + which), blk + "ffn_up" + which);
    part = b.activate(part, blk + "activation" + which, {core::Activation::silu});
    part = b.linear(part, blk + "ffn_down" + which, width);
    return b.add(value, if_normed(part, blk + "ffn_post_norm" + which), blk + "ffn_add" + which, kHalf);
  };
  for (int64_t il = 0; il < b.hparams().layers(); ++il) {
    const std::string blk = fmt::format("a.blk.{}.", il);
    b.begin_layer(il);
    x = half_ffn(x, blk, "");
    ValueId part = b.linear(spec.attention(normed(x, blk + spec.attention_norm), blk), blk + "attn_out", width);
    x = b.add(x, if_normed(part, blk + "attn_post_norm"), blk + "attn_add");
    part = b.linear(normed(x, blk + spec.convolution_norm), blk + "conv_pw1", 2 * width);
    const auto [value, gate] = halves(b, part, blk + "conv");
    part = b.emit(OpKind::glu, blk + "conv_glu", {gate, value}, width, {},
                  core::ActivationParams{core::Activation::sigmoid});
    x = b.add(x, b.linear(spec.convolution(part, blk), blk + "conv_pw2", width), blk + "conv_add");
    x = normed(half_ffn(x, blk, "_1"), blk + "ln2");
    if (spec.ended) x = spec.ended(x, il);
  }
  b.begin_layer(-1);
  return x;
}

ValueId over_time(Builder& b, ValueId x, const std::string& name, std::span<const float> taps,
                  std::span<const float> bias, int64_t ahead, core::Activation activation) {
  const int64_t channels = b.width_of(x), kernel = std::ssize(taps) / channels;
  core::Program& program = b.encoder().stages.back().program;
  const auto state = static_cast<int32_t>(program.states.size());
  program.states.push_back({name, (kernel - 1) * channels});
  std::vector<core::WeightId> weights = {b.constant(name, taps, channels)};
  if (!bias.empty()) weights.push_back(b.constant(name + ".bias", bias));
  return b.emit(OpKind::conv1d, name, {x}, channels, std::move(weights),
                core::ConvParams{state, kernel, activation, ahead});
}

ValueId centred_convolution(Builder& b, ValueId x, const std::string& blk, int64_t kernel,
                            std::span<const float> factor, std::span<const float> shift) {
  std::vector<float> taps = b.values(blk + "conv_dw.weight", kernel * std::ssize(factor));
  for (size_t i = 0; i < taps.size(); ++i) taps[i] *= factor[i / kernel];
  return over_time(b, x, blk + "conv_dw", taps, shift, kernel / 2, core::Activation::silu);
}

ValueId attend_by_distance(Builder& b, const std::array<ValueId, 3>& qkv, const std::string& blk, const Waves& waves,
                           std::span<const float> matrices, std::span<const float> biases, core::AttentionParams params,
                           bool causal) {
  vision::Stage& stage = b.encoder().stages.back();
  const int64_t heads = params.heads, dim = b.width_of(qkv[0]) / heads, rows = waves.extra() + dim;
  const int64_t block = params.in_blocks ? params.window : stage.rows();
  std::vector<float> at_place;
  for (int64_t row = 0; row < stage.rows(); ++row) {
    const int64_t place = row % block;
    for (const double frequency : waves.frequencies) {
      at_place.push_back(static_cast<float>(std::cos(frequency * static_cast<double>(place))));
      at_place.push_back(static_cast<float>(std::sin(frequency * static_cast<double>(place))));
    }
    if (waves.has_constant) at_place.push_back(1);
  }
  const std::vector<float> inverse(waves.frequencies.begin(), waves.frequencies.end());
  core::RopeTable table = {inverse, 1, core::RopeStyle::adjacent};
  if (params.in_blocks) {
    table.axes.assign(inverse.size(), 0);
    if (stage.axes.empty())
      for (int64_t row = 0; row < stage.rows(); ++row)
        for (const auto place : {static_cast<int32_t>(row % block), 0, 0, 0}) stage.axes.push_back(place);
  }
  const int32_t rope = b.rope(std::move(table));
  ValueId q = b.times_each_head(qkv[0], heads, blk + "attn.waves", matrices, biases);
  q = b.emit(OpKind::rope, blk + "attn.waves rope", {q}, b.width_of(q), {}, core::RopeParams{rope, heads, rows});
  const ValueId keys = b.rows(blk + "attn.places", at_place, waves.extra());
  return b.attend(q, b.before_heads(qkv[1], heads, keys, blk + "attn.keys"), qkv[2], blk, {heads, rows, dim}, params,
                  causal);
}

} // namespace ridge::models::sound
