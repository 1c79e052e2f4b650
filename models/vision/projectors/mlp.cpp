// LLaVA 1.5 and 1.6, Yi-VL, Granite Vision: CLIP without its last layer, or several layers concatenated.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const std::vector<int64_t> points = h.counts("image_grid_pinpoints");
  if (points.empty()) return wrapped("", clip_square(h, picture), "");
  std::vector<media::Size> sizes;
  for (size_t i = 0; i + 1 < points.size(); i += 2) {
    if (points[i] < side || points[i + 1] < side || points[i] > 8192 || points[i + 1] > 8192)
      throw_error("{}: {} has {} × {}, expected at least a tile of {}", h.path(), h.key("image_grid_pinpoints"),
                  points[i], points[i + 1], side);
    sizes.push_back({points[i] / side * side, points[i + 1] / side * side});
  }
  std::vector<Part> parts;
  append_tiles(parts, media::resize_padded(picture, best_size(picture, sizes), media::Filter::bicubic), side);
  parts.push_back({.tile = media::resize(picture, side, side, media::Filter::bicubic)});
  return parts;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool has_class = b.has("v.class_embd");
  ValueId x = b.patches(h.patch(), has_class ? 1 : 0);
  x = b.add_rows(x, "v.position_embd", b.table_with_class());
  // Indices of hidden states that are used; 0: the first layer's input.
  const std::vector<int64_t> features = h.counts("feature_layer");
  const int64_t last = features.empty() ? h.layers() - 1 : std::ranges::max(features);
  if (last < 0 || last > h.layers()) throw_error("{}: {} has {}", h.path(), h.key("feature_layer"), last);
  for (int64_t il = last; il < h.layers(); ++il) b.skip_layer(il);
  const auto counts = [&](int64_t layer) { return std::ranges::find(features, layer) != features.end(); };
  if (counts(0)) throw_error("{}: {} has 0, which is not supported", h.path(), h.key("feature_layer"));
  std::vector<ValueId> chosen;
  x = b.layers(x, {.activation = b.activation(), .may_swap_ffn = true}, last, [&](ValueId end, int64_t il) {
    if (counts(il + 1) && il + 1 < last) chosen.push_back(end);
    return end;
  });
  chosen.push_back(x);
  for (ValueId all = x = chosen[0]; const ValueId next : std::span(chosen).subspan(1))
    x = all = b.concat(all, next, "v.features");
  // The table starts with the class, which is last here: the first patch has its position and is dropped.
  std::vector<int32_t> rows(b.columns() * b.lines());
  std::iota(rows.begin(), rows.end(), has_class ? 1 : 0);
  x = b.begin_stage(x, 1, std::move(rows));
  x = b.linear(x, "mm.0");
  if (!b.has("mm.3.weight")) return b.tokens(b.linear(b.gelu(x, "mm.gelu"), "mm.2"));
  x = b.gelu(b.norm(x, "mm.1", Norm::layer), "mm.gelu");
  b.tokens(b.norm(b.linear(x, "mm.3"), "mm.4", Norm::layer));
}

} // namespace

constinit const ProjectorFile projectors::mlp = {.cut = cut, .build = build};

} // namespace ridge::models::vision
