// Muse Glimmer. Most layers have windows of the position table's size.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

int64_t side_of(const Hparams& h) { return h.count_or("spatial_merge_size", 2, 64); }

// The pair with the closest aspect ratio; ties: the largest.
media::Size nearest_size(const Hparams& h, const media::Picture& picture) {
  constexpr int64_t kMaxTokens = 4096;
  const int64_t factor = side_of(h) * h.patch();
  const double wanted = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  const double shrink = std::min(1.0, std::sqrt(static_cast<double>(kMaxTokens * factor * factor) /
                                                static_cast<double>(picture.width * picture.height)));
  const double columns = static_cast<double>(picture.width) * shrink / static_cast<double>(factor),
               lines = static_cast<double>(picture.height) * shrink / static_cast<double>(factor);
  media::Size best = {1, 1};
  double best_difference = -1;
  for (const double w : {std::floor(columns), std::ceil(columns)})
    for (const double l : {std::floor(lines), std::ceil(lines)}) {
      const media::Size size = {std::max<int64_t>(1, static_cast<int64_t>(w)),
                                std::max<int64_t>(1, static_cast<int64_t>(l))};
      if (size.width * size.height > kMaxTokens) continue;
      const double difference = std::abs(static_cast<double>(size.width) / static_cast<double>(size.height) - wanted);
      const bool larger = size.width * size.height > best.width * best.height;
      if (best_difference < 0 || difference < best_difference || (difference == best_difference && larger)) {
        best = size;
        best_difference = difference;
      }
    }
  return {best.width * factor, best.height * factor};
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const media::Size size = nearest_size(h, picture);
  return wrapped("<|image_start|>", media::resize(picture, size.width, size.height, media::Filter::lanczos),
                 "<|image_end|>");
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t window = b.table_side(), layers = h.layers(), side = side_of(h);
  const core::ActivationParams gelu = {core::Activation::gelu_erf};
  ValueId x = b.patches(h.patch());
  b.in_squares(window);
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::linear));
  LayerSpec spec = {.activation = gelu, .window = window * window};
  spec.rope = b.rope({core::RopeStyle::adjacent, h.head_dim(), 2, 10000, 1, 1});
  spec.in_blocks = [=](int64_t il) { return (il + 1) % 4 != 0 && il + 1 != layers; };
  x = b.merge(b.layers(x, spec), side);
  x = b.channels_first(x, "mm.order", side * side);
  x = b.activate(b.linear(x, "mm.0"), "mm.gelu.0", gelu);
  x = b.activate(b.linear(x, "mm.1"), "mm.gelu.1", gelu);
  b.tokens(b.linear(x, "mm.2"));
}

} // namespace

constinit const ProjectorFile projectors::muse_glimmer = {.cut = cut, .build = build};

} // namespace ridge::models::vision
