// DeepSeek-OCR: SAM with windows, convolutions to a sixteenth of its rows, then CLIP. Large images become tiles, then
// the whole image.
#include "core/error.h"
#include "core/executor.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"
#include "models/vision/tables.h"

#include <numbers>

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kWhole = 1024, kTile = 640; // the file's values are ignored
constexpr int64_t kPatch = 16;
constexpr float kSamEpsilon = 1e-6f, kClipEpsilon = 1e-5f;

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  constexpr int64_t kMinTiles = 2, kMaxTiles = 9, kMax = 256;
  constexpr media::Color kGrey = {127, 127, 127};
  const int64_t least = h.count_or("preproc_min_tiles", kMinTiles, kMax, 0),
                most = h.count_or("preproc_max_tiles", kMaxTiles, kMax, std::max<int64_t>(least, 1));
  std::vector<Part> parts;
  if (picture.width > kTile || picture.height > kTile) {
    const media::Size grid = nearest_grid(picture, least, most, kTile);
    const int64_t width = grid.width * kTile;
    const media::Picture large = media::resize(picture, width, grid.height * kTile, media::Filter::bicubic);
    for (int64_t y = 0; y < large.height; y += kTile) parts.push_back({.tile = media::crop(large, 0, y, width, kTile)});
  }
  parts.push_back(
      {.tile = media::resize_padded(picture, kWhole, kWhole, media::Filter::bicubic, kGrey, media::Rounding::nearest)});
  parts.push_back({.text = "\n"});
  return parts;
}

// SAM adds q · table[distance] to scores. As a sum of waves in the distance this is rope, since cos(q - k) = cos q cos
// k + sin q sin k: q gets its products with the waves' coefficients, rotated by its position; k has the waves at its
// own position. The constant wave shifts all scores of a token equally, so it is omitted.
struct Waves {
  int64_t reach; // positions per line

  int64_t count() const { return reach - 1; }
  double frequency(int64_t wave) const {
    return 2 * std::numbers::pi * static_cast<double>(wave + 1) / static_cast<double>(2 * reach - 1);
  }
  // Two rows per wave; table[0] is for distance 1 - reach.
  void append_coefficients(std::vector<float>& rows, std::span<const float> table, int64_t dim, double scale) const {
    const int64_t distances = 2 * reach - 1;
    for (int64_t wave = 0; wave < count(); ++wave)
      for (const bool is_cosine : {true, false}) {
        std::vector<double> sums(dim);
        for (int64_t at = 0; at < distances; ++at) {
          const double angle = frequency(wave) * static_cast<double>(at + 1 - reach);
          const double factor = is_cosine ? std::cos(angle) : -std::sin(angle);
          for (int64_t i = 0; i < dim; ++i) sums[i] += table[at * dim + i] * factor;
        }
        for (const double sum : sums)
          rows.push_back(static_cast<float>(2 * scale * sum / static_cast<double>(distances)));
      }
  }
  void append_at(std::vector<float>& row, int64_t place) const {
    for (int64_t wave = 0; wave < count(); ++wave) {
      const double angle = frequency(wave) * static_cast<double>(place);
      row.push_back(static_cast<float>(std::cos(angle)));
      row.push_back(static_cast<float>(std::sin(angle)));
    }
  }
};

// SAM's layers. Rows are patches, window by window; incomplete windows are zero-padded.
class Sam {
 public:
  explicit Sam(Builder& b)
      : b_(b), width_(b.hparams().count("sam.embedding_length", 1 << 14)),
        heads_(b.hparams().count("sam.head_count", 256)), window_(b.hparams().count("window_size", 64, 2)) {
    if (width_ % heads_ != 0)
      throw_error("{}: {} heads do not divide a width of {}", b.hparams().path(), heads_, width_);
  }

  ValueId build() {
    constexpr int64_t kMaxSamLayers = 256, kTableSide = kWhole / kPatch;
    ValueId x = b_.patches(kPatch, 0, {}, "v.sam.patch_embd", width_);
    b_.in_squares(window_, true);
    place_rows();
    const std::vector<float> table = b_.values("v.sam.pos_embd.weight", kTableSide * kTableSide * width_);
    x = b_.add_to_patches(
        x, "v.sam.pos_embd",
        resized_table(table, width_, {kTableSide, kTableSide}, {b_.columns(), b_.lines()}, TableResize::cubic));
    windows_ = places({window_}, false);
    all_ = places({b_.columns()}, true);
    inside_ = b_.rows("v.sam.inside", is_inside(), 1);
    for (int64_t il = 0; il < b_.hparams().count("sam.block_count", kMaxSamLayers); ++il) x = layer(x, il);
    return x;
  }

 private:
  struct Places {
    Waves waves;
    bool hides;
    int32_t rope;
    ValueId keys;
    int64_t extra() const { return 4 * waves.count() + (hides ? 1 : 0); }
  };

  void place_rows() {
    const int64_t square = window_ * window_, of_line = (b_.columns() + window_ - 1) / window_;
    for (int64_t row = 0; row < std::ssize(b_.from()); ++row) {
      const int64_t at = row / square, in = row % square;
      const int64_t line = at / of_line * window_ + in / window_, column = at % of_line * window_ + in % window_;
      for (const int64_t axis : {int64_t{0}, line, column, int64_t{0}})
        b_.encoder().stages.back().axes.push_back(static_cast<int32_t>(axis));
    }
  }

  std::vector<float> is_inside() const {
    std::vector<float> made;
    for (const int32_t patch : b_.from()) made.push_back(patch >= 0 ? 1 : 0);
    return made;
  }

  Places places(Waves waves, bool hides) {
    constexpr float kNever = -30000; // leaves no softmax weight
    core::RopeTable table = {{}, 1, core::RopeStyle::adjacent};
    for (const uint8_t axis : {1, 2})
      for (int64_t wave = 0; wave < waves.count(); ++wave) {
        table.inverse_frequency.push_back(static_cast<float>(waves.frequency(wave)));
        table.axes.push_back(axis);
      }
    std::vector<float> keys;
    const std::vector<int32_t>& axes = b_.encoder().stages.back().axes;
    for (int64_t row = 0; row < std::ssize(b_.from()); ++row) {
      for (const int64_t axis : {1, 2}) waves.append_at(keys, axes[row * core::kPlaceAxes + axis]);
      if (hides) keys.push_back(b_.from()[row] < 0 ? kNever : 0);
    }
    Places made = {waves, hides, b_.rope(std::move(table))};
    made.keys = b_.rows(fmt::format("v.sam.waves.{}", waves.reach), keys, made.extra());
    return made;
  }

  // Multiplies q by the waves' coefficients, a 1 for hiding, and the identity.
  ValueId with_waves(ValueId q, const Places& places, const std::string& blk) {
    const int64_t dim = width_ / heads_, rows = places.extra() + dim;
    const double root = std::sqrt(static_cast<double>(dim)); // cancels 1 / sqrt(dim)
    std::vector<float> matrix, bias(rows);
    for (const char* name : {"pos_h", "pos_w"}) {
      const std::string tensor = blk + "attn." + name;
      const int64_t distances = b_.rows_of(tensor);
      const std::vector<float> table = b_.values(tensor + ".weight", distances * dim);
      places.waves.append_coefficients(
          matrix, resized_table(table, dim, {1, distances}, {1, 2 * places.waves.reach - 1}, TableResize::linear), dim,
          root);
    }
    if (places.hides) bias[places.extra() - 1] = 1;
    matrix.resize(rows * dim);
    for (int64_t i = 0; i < dim; ++i) matrix[(places.extra() + i) * dim + i] = 1;
    q = b_.times_heads(q, heads_, blk + "attn.waves", matrix, bias);
    return b_.emit(core::OpKind::rope, blk + "attn.waves rope", {q}, b_.width_of(q), {},
                   core::RopeParams{places.rope, heads_, rows});
  }

  ValueId attention(ValueId x, int64_t il, const std::string& blk) {
    const bool sees_all = il % 3 == 2;
    const Places& places = sees_all ? all_ : windows_;
    const int64_t dim = width_ / heads_;
    if (!sees_all) x = b_.emit(core::OpKind::glu, blk + "inside", {inside_, x}, width_, {}, core::ActivationParams{});
    const auto [q, k, v] = b_.split_qkv(x, blk + "attn.qkv", width_, width_);
    core::AttentionParams params = {.heads = heads_};
    params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
    params.in_blocks = !sees_all;
    if (!sees_all) params.window = window_ * window_;
    x = b_.attend(with_waves(q, places, blk), b_.before_heads(k, heads_, places.keys, blk + "attn.keys"), v, blk,
                  {heads_, places.extra() + dim, dim}, params);
    return b_.linear(x, blk + "attn.out", width_);
  }

  ValueId layer(ValueId x, int64_t il) {
    const std::string blk = fmt::format("v.sam.blk.{}.", il);
    const auto normed = [&](const char* name) { return b_.norm(x, blk + name, Norm::layer, kSamEpsilon, width_); };
    x = b_.add(x, attention(normed("pre_ln"), il, blk), blk + "attn_add");
    ValueId hidden = b_.linear(normed("post_ln"), blk + "mlp.lin1");
    hidden = b_.activate(hidden, blk + "activation", b_.activation());
    return b_.add(x, b_.linear(hidden, blk + "mlp.lin2", width_), blk + "ffn_add");
  }

  Builder& b_;
  const int64_t width_, heads_, window_;
  Places windows_ = {}, all_ = {};
  ValueId inside_ = -1;
};

// Merges SAM's rows to a sixteenth and appends a zero row.
ValueId downsample(Builder& b, ValueId x) {
  const auto normed = [&](const char* name) { return b.norm(x, name, Norm::layer, kSamEpsilon, b.width_of(x)); };
  x = b.convolution(x, "v.sam.neck.0", 1);
  x = b.around(normed("v.sam.neck.1"), 1);
  x = b.convolution(x, "v.sam.neck.2", 9);
  x = b.around(normed("v.sam.neck.3"), 2);
  x = b.around(b.convolution(x, "v.sam.net_2", 9), 2, 1);
  return b.convolution(x, "v.sam.net_3", 9);
}

// The class follows the patches; its row is the table's first.
std::vector<float> places_with_class(Builder& b, int64_t side) {
  constexpr int64_t kSide = 16;
  const int64_t width = b.hparams().width();
  const std::vector<float> table = b.values("v.position_embd.weight", (kSide * kSide + 1) * width),
                           own = b.values("v.class_embd", width);
  std::vector<float> made =
      resized_table(std::span(table).subspan(width), width, {kSide, kSide}, {side, side}, TableResize::smooth_cubic);
  for (int64_t i = 0; i < width; ++i) made.push_back(table[i] + own[i]);
  return made;
}

// A row from the file ends each line of tokens, and another a whole image.
std::vector<int32_t> order_of(const Encoder& encoder, int64_t side, bool is_whole) {
  constexpr int32_t kLineEnd = -1, kEnd = -2;
  const int64_t rows = encoder.stages.back().rows();
  std::vector<int32_t> order;
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t square = 0; square < encoder.squares; ++square)
      for (int64_t x = 0; x < side; ++x) order.push_back(static_cast<int32_t>(square * rows + y * side + x));
    order.push_back(kLineEnd);
  }
  if (is_whole) order.push_back(kEnd);
  return order;
}

void build(Builder& b) {
  constexpr core::ActivationParams kQuickGelu = {core::Activation::silu, 1.702f};
  b.cut_squares();
  const ValueId sam = downsample(b, Sam(b).build());
  const int64_t side = b.encoder().columns;
  b.use_epsilon(kClipEpsilon);
  ValueId x = b.add_rows(sam, "v.position_embd", places_with_class(b, side));
  x = b.layers(x, {.activation = kQuickGelu});
  x = b.linear(b.concat(x, sam, "mm.both"), "mm.model.fc");
  b.tokens(x);
  Encoder& encoder = b.encoder();
  for (const char* name : {"v.image_newline", "v.view_seperator"}) {
    const std::vector<float> row = b.values(name, b.width_of(x));
    encoder.further.insert(encoder.further.end(), row.begin(), row.end());
  }
  encoder.tokens = order_of(encoder, side, b.columns() * kPatch == kWhole);
  encoder.columns = encoder.lines = 0;
}

} // namespace

constinit const ProjectorFile projectors::deepseekocr = {.cut = cut, .build = build};

} // namespace ridge::models::vision
