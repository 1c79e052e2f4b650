// HunyuanOCR and Hunyuan VL.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  constexpr int64_t kMinTokens = 256, kMaxTokens = 16384, kMaxPixels = 1 << 26;
  const int64_t factor = qwen_side(h) * h.patch(), square = factor * factor;
  const int64_t least = h.count_or("image_min_pixels", kMinTokens * square, kMaxPixels),
                most = h.count_or("image_max_pixels", kMaxTokens * square, kMaxPixels);
  const media::Size size = media::smart_size({picture.width, picture.height}, factor, least, most);
  return wrapped("<｜hy_place▁holder▁no▁100｜>",
                 media::resize(picture, size.width, size.height, media::Filter::lanczos),
                 "<｜hy_place▁holder▁no▁101｜>");
}

void append_normed(Builder& b, std::vector<float>& rows, std::vector<float> row, const std::string& tensor) {
  const std::vector<float> factors = b.values(tensor, std::ssize(row));
  const double square = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  const double scale = 1 / std::sqrt(square / static_cast<double>(row.size()) + b.hparams().epsilon());
  for (size_t i = 0; i < row.size(); ++i) rows.push_back(static_cast<float>(row[i] * scale * factors[i]));
}

// A begin row, lines with an end row each, an end row.
std::vector<int32_t> framed_order(const Encoder& encoder) {
  constexpr int32_t kBegin = -1, kLineEnd = -2, kEnd = -3;
  std::vector<int32_t> order = {kBegin};
  for (int32_t i = 0; i < std::ssize(encoder.tokens); ++i) {
    order.push_back(i);
    if ((i + 1) % encoder.columns == 0) order.push_back(kLineEnd);
  }
  order.push_back(kEnd);
  return order;
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t side = qwen_side(h);
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.position_table(TableResize::wider));
  x = b.layers(x, {.activation = {core::Activation::gelu}});
  x = b.merge(b.norm(x, "mm.pre_norm", Norm::rms), side);
  x = b.convolution(b.gelu(b.convolution(x, "mm.0", side * side), "mm.gelu"), "mm.2", 1);
  const std::vector<float> line_end = b.linear_of(b.values("v.image_newline", b.width_of(x)), "mm.model.fc");
  x = b.linear(x, "mm.model.fc");
  b.tokens(b.norm(x, "mm.post_norm", Norm::rms));
  Encoder& encoder = b.encoder();
  for (const auto& row : {b.values("mm.image_begin", b.width_of(x)), line_end, b.values("mm.image_end", b.width_of(x))})
    append_normed(b, encoder.further, row, "mm.post_norm.weight");
  encoder.tokens = framed_order(encoder);
  ++encoder.columns;
  encoder.framed = true;
}

} // namespace

constinit const ProjectorFile projectors::hunyuanvl = {.cut = cut, .build = build};

} // namespace ridge::models::vision
