// Qwen3-VL and Qwen 3.5 to 3.8. Tokens concatenate rows of several layers' mergers, for the language model's first
// layers (DeepStack).
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

#include <fmt/format.h>

namespace ridge::models::vision {
namespace {

using core::ValueId;

void build(Builder& b) {
  const Hparams& h = b.hparams();
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::corners));
  const LayerSpec spec = {.activation = b.activation(), .rope = b.rope({core::RopeStyle::split, h.head_dim()})};
  std::vector<ValueId> ends = {-1};
  std::vector<std::string> mergers;
  ends[0] = b.layers(x, spec, -1, [&](ValueId end, int64_t il) {
    const std::string merger = fmt::format("v.deepstack.{}.", il);
    if (!b.has(merger + "fc1.weight")) return end;
    ends.push_back(end);
    mergers.push_back(merger);
    return end;
  });
  const std::vector<ValueId> squares = b.merge(ends, qwen_side(h));
  ValueId row = b.linear(b.gelu(b.linear(squares[0], "mm.0"), "mm.gelu"), "mm.2");
  const int64_t width = b.width_of(row);
  for (size_t i = 0; i < mergers.size(); ++i) {
    const ValueId normed = b.norm(squares[i + 1], mergers[i] + "norm", Norm::layer);
    const ValueId hidden = b.gelu(b.linear(normed, mergers[i] + "fc1"), mergers[i] + "gelu");
    row = b.concat(row, b.linear(hidden, mergers[i] + "fc2", width), mergers[i] + "concat");
  }
  b.tokens(row);
}

} // namespace

constinit const ProjectorFile projectors::qwen3vl = {.cut = qwen_cut, .build = build};

} // namespace ridge::models::vision
