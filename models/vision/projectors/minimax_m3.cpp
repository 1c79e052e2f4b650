// MiniMax M3. A feed-forward part for each patch, then one for four of them side by side.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t factor = qwen_side(h) * h.patch();
  return wrapped("]<]start of image[>[",
                 dynamic_tile(picture, {.factor = factor, .least = 4, .most = 576, .pads = false}),
                 "]<]end of image[>[");
}

// A head has a part each for frame, line and column, then a rest. Frames are those of videos: without rope in pictures.
std::vector<int32_t> lines_and_columns(int64_t dim, int64_t pairs) {
  std::vector<int32_t> order;
  const auto append = [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) order.push_back(static_cast<int32_t>(i));
  };
  for (const int64_t half : {0, 1})
    for (const int64_t axis : {1, 2}) append((2 * axis + half) * pairs, (2 * axis + half + 1) * pairs);
  append(0, 2 * pairs);
  append(6 * pairs, dim);
  return order;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  constexpr core::ActivationParams kGelu = {core::Activation::gelu_erf};
  const int64_t pairs = h.head_dim() / 2 * 2 / 3 / 2; // of an axis
  if (pairs < 1) throw_error("{}: heads of {} elements, expected at least 6", h.path(), h.head_dim());
  const auto ffn = [&](ValueId x, const std::string& up, const std::string& down) {
    return b.linear(b.activate(b.linear(x, up), up + " gelu", kGelu), down);
  };
  LayerSpec spec = {.activation = kGelu, .head_order = lines_and_columns(h.head_dim(), pairs)};
  ValueId x = b.patches(h.patch());
  spec.rope = b.rope({core::RopeStyle::split, 4 * pairs});
  x = b.merge(ffn(b.layers(x, spec), "mm.1", "mm.2"), qwen_side(h));
  b.tokens(ffn(x, "mm.merger.fc1", "mm.merger.fc2"));
  b.encoder().columns = b.encoder().lines = 0; // tokens have the places of text
}

} // namespace

constinit const ProjectorFile projectors::minimax_m3 = {.cut = cut, .build = build};

} // namespace ridge::models::vision
