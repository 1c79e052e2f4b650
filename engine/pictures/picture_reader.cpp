#include "engine/pictures/picture_reader.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/files/sha256.h"
#include "engine/prefixes/model_key.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <future>
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

// Runs a Program for all rows that its executor was made for. Without `input`, that was taken from another one.
void run(core::Executor& executor, std::span<const float> input, const models::vision::Encoder* places) {
  const int64_t rows = executor.config().max_batch;
  std::vector<int32_t> tokens(rows), positions(rows);
  std::iota(positions.begin(), positions.end(), 0);
  core::Batch batch{.tokens = tokens, .positions = positions, .input = input, .input_taken = input.empty()};
  if (places) {
    batch.axes = places->axes;
    batch.block_ends = places->block_ends;
  }
  executor.forward(batch);
}

// All rows of the output of the last run.
std::span<const float> result_of(core::Executor& executor, const core::Program& program) {
  return {executor.logits(0).data(),
          static_cast<size_t>(executor.config().max_batch * program.values[program.output].width)};
}

bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (const float value : values) bad |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent; // in vectors
  return bad == 0;
}

double flops_of(const core::Executor& executor, const core::Program& program) {
  const int64_t rows = executor.config().max_batch;
  return core::program_cost(program, {.tokens = rows, .outputs = rows}).flops;
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

PictureReader::PictureReader(gguf::File file, const Options& options)
    : file_(std::move(file)), model_(file_), options_(options), key_(model_key(file_)),
      row_width_(row_width_of(model_)) {}

void PictureReader::check_fits(const core::Program& program, const std::string& path) const {
  if (program.row_width != row_width_)
    throw_error("{}: makes rows of {} elements of a picture, {} takes {}: the two files do not belong together",
                this->path(), row_width_, path, program.row_width);
}

// On the GPU, with the weights of an executor for another size where there is one, or on the CPU.
std::unique_ptr<core::Executor> PictureReader::executor_of(const core::Program& program, int64_t rows,
                                                           const core::Executor* weights_of) {
  core::ExecutorConfig config = {.context = rows, .max_batch = rows, .max_outputs = 0, .going_back = 0};
  config.threads = options_.threads;
  config.exact = options_.exact;
  config.k_type = config.v_type = options_.exact ? core::KvType::f32 : core::KvType::f16;
  if (options_.gpu >= 0) try {
      kernels::cuda::CudaOptions cuda;
      cuda.device = options_.gpu;
      cuda.weights_of = weights_of;
      return kernels::cuda::make_cuda_executor(program, config, cuda);
    } catch (const kernels::cuda::OutOfMemory& error) {
      options_.gpu = -1;
      if (options_.note) options_.note(fmt::format("pictures are encoded on the CPU: {}", error.what()));
    }
  return kernels::cpu::make_cpu_executor(program, config);
}

PictureReader::Sized& PictureReader::sized_for(int64_t width, int64_t height) {
  if (last_ && last_->width == width && last_->height == height) return *last_;
  auto sized = std::make_unique<Sized>();
  sized->width = width;
  sized->height = height;
  sized->encoder = model_.build(width, height);
  const models::vision::Encoder& encoder = sized->encoder;
  sized->patches = executor_of(encoder.encoder, std::ssize(encoder.patches), last_ ? last_->patches.get() : nullptr);
  sized->squares =
      executor_of(encoder.merger, std::ssize(encoder.merged) / encoder.group, last_ ? last_->squares.get() : nullptr);
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
  std::future<uint64_t> hash = std::async(std::launch::async, [&] { return hash_of(key_, tile); });
  const std::vector<float> patches = patches_of(sized, tile);
  const double start = core::seconds_now();
  run(*sized.patches, patches, &encoder);
  if (sized.squares->take_input(*sized.patches, encoder.merged)) {
    run(*sized.squares, {}, nullptr);
  } else {
    const int64_t width = encoder.encoder.values[encoder.encoder.output].width;
    const std::vector<float> zeros(width);
    run(*sized.squares,
        chosen_rows(result_of(*sized.patches, encoder.encoder), width, encoder.merged,
                    [&](int32_t) { return std::span(zeros); }),
        nullptr);
  }
  const std::span<const float> rows = result_of(*sized.squares, encoder.merger);
  work_.seconds += core::seconds_now() - start;
  work_.flops += flops_of(*sized.patches, encoder.encoder) + flops_of(*sized.squares, encoder.merger);
  work_.patches += std::ssize(encoder.patches);
  EncodedTile encoded;
  encoded.width = encoder.merger.values[encoder.merger.output].width;
  encoded.tokens = std::ssize(encoder.tokens);
  encoded.columns = encoder.columns;
  encoded.lines = encoder.lines;
  encoded.sees_ahead = model_.sees_ahead(encoded.width);
  encoded.rows = chosen_rows(rows, encoded.width, encoder.tokens, [&](int32_t row) {
    return std::span(encoder.further).subspan(row * encoded.width, encoded.width);
  });
  if (!all_finite(encoded.rows)) throw_error("{}: gives no numbers for a picture: the file is broken", file_.path());
  encoded.hash = hash.get();
  file_.check();
  return encoded;
}

std::vector<PictureReader::Piece> PictureReader::read(const media::Picture& picture) {
  std::vector<Piece> pieces;
  work_ = {};
  for (const models::vision::Part& part : model_.cut(picture)) {
    if (part.tile)
      pieces.push_back({.tile = std::make_shared<const EncodedTile>(encode(*part.tile))});
    else
      pieces.push_back({.text = part.text, .otherwise = part.otherwise});
  }
  return pieces;
}

} // namespace ridge::engine
