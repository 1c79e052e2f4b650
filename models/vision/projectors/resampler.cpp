// MiniCPM-V and MiniCPM-o. Learned queries attend to all patches. The whole image precedes slices.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/cuts.h"

namespace ridge::models::vision {
namespace {

using core::ValueId;

constexpr int64_t kFirstVersion = 2, kTableSide = 70;
constexpr const char* kVersion = "clip.minicpmv_version";
constexpr const char* kQueries = "clip.minicpmv_query_num";

int64_t version_of(const Hparams& h) {
  const int64_t version = h.whole_key_or(kVersion, 0);
  constexpr int64_t kLastVersion = 6, kOmni45 = 100045;
  if (version == 0) return kFirstVersion;
  if ((version < kFirstVersion || version > kLastVersion) && version != kOmni45)
    throw_error("{}: {} is {}, expected {} to {} or {}", h.path(), kVersion, version, kFirstVersion, kLastVersion,
                kOmni45);
  return version;
}

int64_t queries_of(const Hparams& h) {
  constexpr int64_t kMax = 4096, kUsual = 64, kOfFirst = 96;
  const int64_t said = h.whole_key_or(kQueries, 0);
  if (said < 0 || said > kMax) throw_error("{}: {} is {}, expected 1 to {}", h.path(), kQueries, said, kMax);
  return said > 0 ? said : version_of(h) == kFirstVersion ? kOfFirst : kUsual;
}

std::vector<Part> cut(const Hparams& h, const media::Picture& picture) {
  const int64_t side = h.image_size();
  const bool large = picture.width > side || picture.height > side;
  const Slices slices = {side, h.patch()};
  const media::Size size = large ? area_size({picture.width, picture.height}, slices, false) : media::Size{side, side};
  std::vector<Part> parts =
      wrapped("<image>", media::resize(picture, size.width, size.height, media::Filter::bicubic), "</image>");
  if (!large) return parts;
  if (version_of(h) > kFirstVersion) {
    append_slices(parts, picture, slices, "<slice>", "</slice>");
  } else {
    parts.push_back({.text = "<slice>"});
    append_slices(parts, picture, slices, "<image>", "</image>");
    parts.push_back({.text = "</slice>"});
  }
  return parts;
}

// Added to keys: sines and cosines of the column, then of the line; zeros for queries.
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

// The last rows, the queries, attend to the others.
ValueId attend_to_patches(Builder& b, ValueId q, ValueId k, ValueId v, int64_t patches, int64_t queries) {
  constexpr int64_t kHeadDim = 128;
  const int64_t width = b.width_of(q), heads = width / kHeadDim;
  if (width % kHeadDim != 0)
    throw_error("{}: a resampler of {} elements, expected heads of {}", b.hparams().path(), width, kHeadDim);
  std::vector<float> hidden(patches + queries);
  std::fill(hidden.begin() + patches, hidden.end(), kHidden);
  core::AttentionParams params = {.heads = heads};
  params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeadDim)));
  return b.attend_to_seen(q, k, v, "resampler.", hidden, {heads, kHeadDim, kHeadDim}, params);
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t queries = queries_of(h), width = b.rows_of("resampler.kv");
  ValueId x = b.patches(h.patch());
  x = b.add_to_patches(x, "v.position_embd", b.nearest_places(kTableSide));
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
  b.skip("resampler.pos_embed_k"); // positions for one image size; computed instead
}

} // namespace

constinit const ProjectorFile projectors::resampler = {.cut = cut, .build = build};

} // namespace ridge::models::vision
