#include "engine/pictures/picture_reader.h"

#include "core/error.h"
#include "core/files/sha256.h"
#include "engine/prefixes/model_key.h"
#include "kernels/cpu/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

namespace ridge::engine {
namespace {

// A hash of a tile's pixels and of the encoder, `key`. Prefixes of all clients are found by it, so it is cut from a
// cryptographic one: no client can make a picture that passes for another.
uint64_t hash_of(std::string_view key, const media::Picture& tile) {
  const core::Sha256::Digest digest =
      core::Sha256().add(key).add(fmt::format(" {} ", tile.width)).add(std::as_bytes(std::span(tile.rgb))).digest();
  uint64_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

// All rows of a Program's output for these rows of input.
std::vector<float> run(core::Executor& executor, const core::Program& program, std::span<const float> input,
                       const models::vision::Encoder* places) {
  const int64_t rows = executor.config().max_batch;
  std::vector<int32_t> tokens(rows), positions(rows);
  std::iota(positions.begin(), positions.end(), 0);
  core::Batch batch{.tokens = tokens, .positions = positions, .input = input};
  if (places) {
    batch.axes = places->axes;
    batch.block_ends = places->block_ends;
  }
  executor.forward(batch);
  const int64_t width = program.values[program.output].width;
  const float* first = executor.logits(0).data();
  return {first, first + rows * width};
}

std::unique_ptr<core::Executor> executor_of(const core::Program& program, int64_t rows,
                                            const PictureReader::Options& options) {
  core::ExecutorConfig config = {.context = rows, .max_batch = rows, .max_outputs = 0, .going_back = 0};
  config.threads = options.threads;
  config.exact = options.exact;
  config.k_type = config.v_type = options.exact ? core::KvType::f32 : core::KvType::f16;
  return kernels::cpu::make_cpu_executor(program, config);
}

// Rows of `rows` that `which` names, one after another; those below 0 are `other(-1 - which)`.
template <typename Other>
std::vector<float> chosen_rows(std::span<const float> rows, int64_t width, std::span<const int32_t> which,
                               const Other& other) {
  std::vector<float> made;
  made.reserve(which.size() * width);
  for (const int32_t row : which) {
    const std::span<const float> chosen =
        row >= 0 ? rows.subspan(row * width, width) : std::span<const float>(other(-1 - row));
    made.insert(made.end(), chosen.begin(), chosen.end());
  }
  return made;
}

// By the Programs of a small picture's first tile, which also shows that the file has all that they need.
int64_t row_width_of(const models::vision::Model& model) {
  for (const models::vision::Part& part : model.cut(media::Picture(64, 64)))
    if (part.tile) {
      const models::vision::Encoder encoder = model.build(part.tile->width, part.tile->height);
      return encoder.merger.values[encoder.merger.output].width;
    }
  return 0;
}

} // namespace

PictureReader::PictureReader(const std::string& path, const Options& options)
    : file_(gguf::File::open(path)), model_(file_), options_(options), key_(model_key(file_)),
      row_width_(row_width_of(model_)) {}

void PictureReader::check_fits(const core::Program& program, const std::string& path) const {
  if (program.row_width != row_width_)
    throw_error("{}: makes rows of {} elements of a picture, {} takes {}: the two files do not belong together",
                this->path(), row_width_, path, program.row_width);
}

PictureReader::Sized& PictureReader::sized_for(int64_t width, int64_t height) {
  if (last_ && last_->width == width && last_->height == height) return *last_;
  last_.reset();
  auto sized = std::make_unique<Sized>();
  sized->width = width;
  sized->height = height;
  sized->encoder = model_.build(width, height);
  const models::vision::Encoder& encoder = sized->encoder;
  sized->patches = executor_of(encoder.encoder, std::ssize(encoder.patches), options_);
  sized->squares = executor_of(encoder.merger, std::ssize(encoder.merged) / encoder.group, options_);
  last_ = std::move(sized);
  return *last_;
}

// Pixels of each patch, [red, green, blue][line][column], shifted and scaled.
std::vector<float> PictureReader::patches_of(const Sized& sized, const media::Picture& tile) const {
  const int64_t side = sized.encoder.patch, columns = sized.width / side, pixels = side * side;
  std::array<std::array<float, 256>, 3> values;
  for (int c = 0; c < 3; ++c)
    for (int v = 0; v < 256; ++v)
      values[c][v] =
          (static_cast<float>(v) / 255.0f - model_.mean()[c]) / model_.deviation()[c] * sized.encoder.pixel_scale +
          sized.encoder.pixel_shift;
  std::vector<float> patches(sized.encoder.patches.size() * 3 * pixels);
  float* out = patches.data();
  for (const int32_t patch : sized.encoder.patches) {
    if (patch >= 0) {
      const int64_t top = patch / columns * side, left = patch % columns * side;
      for (int64_t y = 0; y < side; ++y) {
        const uint8_t* pixel = tile.row(top + y) + 3 * left;
        for (int64_t x = 0; x < side; ++x)
          for (int c = 0; c < 3; ++c) out[c * pixels + y * side + x] = values[c][*pixel++];
      }
    }
    out += 3 * pixels;
  }
  return patches;
}

EncodedTile PictureReader::encode(const media::Picture& tile) {
  Sized& sized = sized_for(tile.width, tile.height);
  const models::vision::Encoder& encoder = sized.encoder;
  const std::vector<float> hidden = run(*sized.patches, encoder.encoder, patches_of(sized, tile), &encoder);
  const int64_t hidden_width = encoder.encoder.values[encoder.encoder.output].width;
  const std::vector<float> zeros(hidden_width);
  const std::vector<float> squares =
      chosen_rows(hidden, hidden_width, encoder.merged, [&](int32_t) { return std::span(zeros); });
  const std::vector<float> rows = run(*sized.squares, encoder.merger, squares, nullptr);
  EncodedTile encoded;
  encoded.width = encoder.merger.values[encoder.merger.output].width;
  encoded.tokens = std::ssize(encoder.tokens);
  encoded.columns = encoder.columns;
  encoded.lines = encoder.lines;
  encoded.sees_ahead = model_.sees_ahead(encoded.width);
  encoded.rows = chosen_rows(rows, encoded.width, encoder.tokens, [&](int32_t row) {
    return std::span(encoder.further).subspan(row * encoded.width, encoded.width);
  });
  for (const float value : encoded.rows)
    if (!std::isfinite(value)) throw_error("{}: gives no numbers for a picture: the file is broken", file_.path());
  encoded.hash = hash_of(key_, tile);
  file_.check();
  return encoded;
}

std::vector<PictureReader::Piece> PictureReader::read(const media::Picture& picture) {
  std::vector<Piece> pieces;
  for (const models::vision::Part& part : model_.cut(picture)) {
    if (part.tile)
      pieces.push_back({.tile = std::make_shared<const EncodedTile>(encode(*part.tile))});
    else
      pieces.push_back({.text = part.text, .otherwise = part.otherwise});
  }
  return pieces;
}

int64_t PictureReader::count_tokens(const media::Picture& picture) const {
  int64_t tokens = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> by_size; // of tiles
  for (const models::vision::Part& part : model_.cut(picture)) {
    if (!part.tile) continue;
    const auto [count, is_new] = by_size.try_emplace({part.tile->width, part.tile->height});
    if (is_new) count->second = std::ssize(model_.build(part.tile->width, part.tile->height).tokens);
    tokens += count->second;
  }
  return tokens;
}

} // namespace ridge::engine
