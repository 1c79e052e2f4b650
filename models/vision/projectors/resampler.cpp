// resampler: MiniCPM-V and MiniCPM-o. A picture has a fixed number of tokens: learned queries that attend to all
// patches. Large ones are cut into slices, behind the picture as a whole.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

#include <array>

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kFirstVersion = 2, kMostSlices = 9;
constexpr const char* kVersion = "clip.minicpmv_version";
constexpr const char* kQueries = "clip.minicpmv_query_num";

int64_t version_of(const Hparams& h) {
  const int64_t version = h.whole_key_or(kVersion, 0);
  constexpr int64_t kLastVersion = 6, kOmni45 = 100045;
  if (version == 0) return kFirstVersion;
  if ((version < kFirstVersion || version > kLastVersion) && version != kOmni45)
    throw_error("{}: {} is {}, expected {} to {}", h.path(), kVersion, version, kFirstVersion, kLastVersion);
  return version;
}

int64_t queries_of(const Hparams& h) {
  constexpr int64_t kMost = 4096, kUsual = 64, kOfFirst = 96;
  const int64_t said = h.whole_key_or(kQueries, 0);
  if (said < 0 || said > kMost) throw_error("{}: {} is {}, expected 1 to {}", h.path(), kQueries, said, kMost);
  return said > 0 ? said : version_of(h) == kFirstVersion ? kOfFirst : kUsual;
}

int64_t to_multiple(int64_t length, int64_t factor) {
  const float whole = std::round(static_cast<float>(length) / static_cast<float>(factor));
  return std::max(static_cast<int64_t>(whole * static_cast<float>(factor)), factor);
}

// Whole patches, of nearly the shape of `size` and as many pixels as a square of `side`; of fewer only where `grows`
// is not set.
media::Size shaped(media::Size size, int64_t side, int64_t patch, bool grows) {
  if (grows || size.width * size.height > side * side) {
    const float ratio = static_cast<float>(size.width) / static_cast<float>(size.height);
    size.height = static_cast<int64_t>(static_cast<float>(side) / std::sqrt(ratio));
    size.width = static_cast<int64_t>(static_cast<float>(size.height) * ratio);
  }
  return {to_multiple(size.width, patch), to_multiple(size.height, patch)};
}

// Of about as many slices as the picture is larger than one; the shape that is nearest to the picture's.
media::Size grid_of(const media::Picture& picture, int64_t side) {
  const float w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  const auto wanted = static_cast<int64_t>(
      std::min(std::ceil(w * h / static_cast<float>(side * side)), static_cast<float>(kMostSlices)));
  const float ratio = std::log(w / h);
  media::Size best = {1, 1};
  float least = std::numeric_limits<float>::infinity();
  for (const int64_t count : {wanted - 1, wanted, wanted + 1})
    for (int64_t columns = 1; columns <= count && count != 1 && count <= kMostSlices; ++columns) {
      if (count % columns != 0) continue;
      const media::Size grid = {columns, count / columns};
      const auto error = static_cast<float>(
          std::abs(ratio - std::log(static_cast<double>(grid.width) / static_cast<double>(grid.height))));
      if (error < least) best = grid;
      least = std::min(least, error);
    }
  return best;
}

void append_slices(std::vector<Part>& parts, const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const media::Size grid = grid_of(picture, side);
  const media::Size slice = shaped(
      {to_multiple(picture.width, grid.width) / grid.width, to_multiple(picture.height, grid.height) / grid.height},
      side, h.patch(), true);
  const media::Picture large =
      media::resize_padded(picture, {slice.width * grid.width, slice.height * grid.height}, media::Filter::bicubic);
  const bool first_version = version_of(h) == kFirstVersion;
  if (first_version) parts.push_back({.text = "<slice>"});
  for (int64_t y = 0; y < grid.height; ++y) {
    if (y > 0) parts.push_back({.text = "\n"});
    for (int64_t x = 0; x < grid.width; ++x) {
      parts.push_back({.text = first_version ? "<image>" : "<slice>"});
      parts.push_back({.tile = media::crop(large, x * slice.width, y * slice.height, slice.width, slice.height)});
      parts.push_back({.text = first_version ? "</image>" : "</slice>"});
    }
  }
  if (first_version) parts.push_back({.text = "</slice>"});
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const bool large = picture.width > side || picture.height > side;
  const media::Size size =
      large ? shaped({picture.width, picture.height}, side, h.patch(), false) : media::Size{side, side};
  std::vector<Part> parts =
      wrapped("<image>", media::resize(picture, size.width, size.height, media::Filter::bicubic), "</image>");
  if (large) append_slices(parts, h, picture);
  return parts;
}

// Of the encoder: a row of a table of 70 × 70 places for each patch, whatever the picture's size.
std::vector<float> places(Builder& b) {
  constexpr int64_t kSide = 70;
  const int64_t width = b.hparams().width();
  const std::vector<float> all = b.values("v.position_embd.weight", kSide * kSide * width);
  std::vector<float> chosen;
  for (int64_t y = 0; y < b.lines(); ++y)
    for (int64_t x = 0; x < b.columns(); ++x) {
      const auto first = all.begin() + (kSide * y / b.lines() * kSide + kSide * x / b.columns()) * width;
      chosen.insert(chosen.end(), first, first + width);
    }
  return chosen;
}

// Of the resampler's keys: sines and cosines of the column, then of the line; of `queries` further rows zeros.
std::vector<float> waves(const Builder& b, int64_t width, int64_t queries) {
  const int64_t quarter = width / 4;
  std::vector<float> table;
  for (int64_t y = 0; y < b.lines(); ++y)
    for (int64_t x = 0; x < b.columns(); ++x)
      for (const int64_t place : {x, y})
        for (const bool is_sine : {true, false})
          for (int64_t i = 0; i < quarter; ++i) {
            const double turn =
                static_cast<double>(place) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(quarter));
            table.push_back(static_cast<float>(is_sine ? std::sin(turn) : std::cos(turn)));
          }
  table.resize(table.size() + queries * width);
  return table;
}

// Attention of the last rows, the queries, to those before. An element more of each head keeps queries from seeing one
// another: it is 1 in what they look for, and in their own keys so low that nothing is left of them.
ValueId attend_to_patches(Builder& b, ValueId q, ValueId k, ValueId v, int64_t patches, int64_t queries) {
  constexpr int64_t kHeadDim = 128;
  constexpr float kNever = -30000;
  const int64_t width = b.width_of(q), heads = width / kHeadDim;
  if (width % kHeadDim != 0)
    throw_error("{}: a resampler of {} elements, expected heads of {}", b.hparams().path(), width, kHeadDim);
  std::vector<float> hidden(patches + queries);
  std::fill(hidden.begin() + patches, hidden.end(), kNever);
  q = b.before_heads(q, heads, b.rows("resampler.looks", std::vector<float>(patches + queries, 1), 1), "resampler.q");
  k = b.before_heads(k, heads, b.rows("resampler.hidden", hidden, 1), "resampler.k");
  core::AttentionParams params = {.heads = heads};
  params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeadDim)));
  return b.attend(q, k, v, "resampler.", {heads, kHeadDim + 1, kHeadDim}, params);
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t queries = queries_of(h), width = b.rows_of("resampler.kv");
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", places(b));
  x = b.layers(x, {.activation = b.activation(), .may_swap_ffn = true});

  const int64_t patches = b.columns() * b.lines();
  std::vector<int32_t> from(patches + queries, -1);
  std::iota(from.begin(), from.begin() + patches, 0);
  x = b.begin_stage(x, 1, std::move(from));
  const ValueId v = b.norm(b.linear(x, "resampler.kv"), "resampler.ln_kv", Norm::layer);
  const ValueId k = b.add_rows(v, "resampler.places", waves(b, width, queries));
  std::vector<float> learned(patches * width);
  const std::vector<float> own = b.values("resampler.query", queries * width);
  learned.insert(learned.end(), own.begin(), own.end());
  const ValueId q = b.norm(b.rows("resampler.query", learned, width), "resampler.ln_q", Norm::layer);
  x = attend_to_patches(b, b.linear(q, "resampler.attn.q", width), b.linear(k, "resampler.attn.k", width),
                        b.linear(v, "resampler.attn.v", width), patches, queries);
  x = b.norm(b.linear(x, "resampler.attn.out", width), "resampler.ln_post", Norm::layer);
  b.tokens(b.linear(x, "resampler.proj"));
  b.encoder().tokens.erase(b.encoder().tokens.begin(), b.encoder().tokens.begin() + patches);
  b.skip("resampler.pos_embed_k"); // places of one size of picture, which are computed instead
}

} // namespace

constinit const ProjectorFile projectors::resampler = {.cut = cut, .build = build};

} // namespace ridge::models::vision
