// MiniCPM-V 4.6. Patches are merged after some layer (unless the scale is 2) and after the last. The whole image
// precedes slices.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kSide = 2;

int64_t scale_of(const Hparams& h) {
  const int64_t scale = h.count_or("projector.scale_factor", kSide * kSide, kSide * kSide);
  if (scale != kSide && scale != kSide * kSide)
    throw_error("{}: {} is {}, expected 2 or 4", h.path(), h.key("projector.scale_factor"), scale);
  return scale;
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const Slices slices = {h.image_size(), h.patch() * scale_of(h), false, true};
  const bool large = picture.width * picture.height > slices.side * slices.side;
  const media::Size size = area_size({picture.width, picture.height}, slices, !large);
  std::vector<Part> parts =
      wrapped("<image>", media::resize(picture, size.width, size.height, media::Filter::bicubic), "</image>");
  if (large) append_slices(parts, picture, slices, "<slice>", "</slice>");
  return parts;
}

// The four patches of a square attend to each other and become one row: their mean plus a feed-forward part of their
// concatenation.
ValueId halve(Builder& b, ValueId x) {
  const std::string merger = "v.vit_merger.";
  const int64_t heads = b.hparams().heads(), dim = b.hparams().head_dim(), width = b.width_of(x);
  const ValueId y = b.norm(x, merger + "ln1", Norm::layer);
  const auto part = [&](const char* name) { return b.linear(y, merger + name, heads * dim); };
  core::AttentionParams params = {.heads = heads};
  params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  params.in_blocks = true;
  params.window = kSide * kSide;
  const ValueId attended = b.attend(part("attn_q"), part("attn_k"), part("attn_v"), merger, {heads, dim, dim}, params);
  x = b.merge(b.add(x, b.linear(attended, merger + "attn_out", width), merger + "attn_add"), kSide);
  const ValueId mean = b.fold(x, merger + "mean", width, 1.0 / (kSide * kSide));
  x = b.linear(b.norm(x, merger + "ds_ln", Norm::layer), merger + "ds_ffn_up");
  x = b.linear(b.gelu(x, merger + "gelu"), merger + "ds_ffn_down", width);
  return b.add(x, mean, merger + "ds_add");
}

void build(Builder& b) {
  constexpr int64_t kTableSide = 70, kUsualLayer = 6;
  const Hparams& h = b.hparams();
  const std::vector<int64_t> said = h.counts("wa_layer_indexes");
  const int64_t halved = said.empty() ? kUsualLayer : said[0];
  const bool halves = scale_of(h) > kSide;
  if (halves && (halved < 0 || halved >= h.layers()))
    throw_error("{}: {} is {}, but there are {} layers", h.path(), h.key("wa_layer_indexes"), halved, h.layers());
  const LayerSpec spec = {.activation = b.activation(), .may_swap_ffn = true};
  ValueId x = b.patches(h.patch());
  b.in_squares(kSide);
  x = b.add_to_patches(x, "v.position_embd", b.nearest_places(kTableSide));
  x = b.layers(x, spec, -1, [&](ValueId end, int64_t il) { return halves && il == halved ? halve(b, end) : end; });
  x = b.merge(x, kSide);
  x = b.linear(b.norm(x, "mm.input_norm", Norm::layer), "mm.up");
  b.tokens(b.linear(b.activate(x, "mm.gelu", {core::Activation::gelu_erf}), "mm.down"));
  b.encoder().columns = b.encoder().lines = 0; // tokens have text positions
}

} // namespace

constinit const ProjectorFile projectors::minicpmv46 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
