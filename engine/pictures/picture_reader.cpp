#include "engine/pictures/picture_reader.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/files/sha256.h"
#include "engine/prefixes/model_key.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "media/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <future>
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

// Computes all rows of a stage. Without `input`, that was taken from another one's executor.
void run(core::Executor& executor, const models::vision::Stage& stage, std::span<const float> input) {
  const int64_t rows = stage.rows();
  std::vector<int32_t> tokens(rows), positions(rows);
  std::iota(positions.begin(), positions.end(), 0);
  executor.forward({.tokens = tokens,
                    .positions = positions,
                    .input = input,
                    .input_taken = input.empty(),
                    .axes = stage.axes,
                    .block_ends = stage.block_ends});
}

// What a stage gave last.
std::span<const float> rows_of(core::Executor& executor, const models::vision::Stage& stage) {
  return {executor.logits(0).data(), static_cast<size_t>(stage.rows() * stage.width())};
}

bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (const float value : values) bad |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent; // in vectors
  return bad == 0;
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
    if (part.tile) return model.build(part.tile->width, part.tile->height).width();
  return 0;
}

} // namespace

core::ExecutorConfig encoder_config(int64_t rows, const PictureReader::Options& options) {
  core::ExecutorConfig config = {.context = rows, .max_batch = rows, .max_outputs = 0, .going_back = 0};
  config.threads = options.threads;
  config.exact = options.exact;
  config.k_type = config.v_type = options.exact ? core::KvType::f32 : core::KvType::f16;
  return config;
}

int64_t encoder_row_width(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  return row_width_of(models::vision::Model(file));
}

void check_row_width(const std::string& encoder, int64_t width, const core::Program& program,
                     const std::string& model) {
  if (program.row_width != width)
    throw_error("{}: makes rows of {} elements of a picture, {} takes {}: the two files do not belong together",
                encoder, width, model, program.row_width);
}

PictureReader::PictureReader(gguf::File file, const Options& options)
    : file_(std::move(file)), model_(file_), options_(options), key_(model_key(file_)),
      row_width_(row_width_of(model_)) {}

// On the GPU, with the weights of an executor for another size where there is one, or on the CPU.
std::unique_ptr<core::Executor> PictureReader::executor_of(const models::vision::Stage& stage,
                                                           const core::Executor* weights_of) {
  const core::ExecutorConfig config = encoder_config(stage.rows(), options_);
  if (options_.gpu >= 0) try {
      kernels::cuda::CudaOptions cuda;
      cuda.device = options_.gpu;
      cuda.weights_of = weights_of;
      return kernels::cuda::make_cuda_executor(stage.program, config, cuda);
    } catch (const kernels::cuda::OutOfMemory& error) {
      options_.gpu = -1;
      if (options_.note) options_.note(fmt::format("pictures are encoded on the CPU: {}", error.what()));
    }
  return kernels::cpu::make_cpu_executor(stage.program, config);
}

PictureReader::Sized& PictureReader::sized_for(int64_t width, int64_t height) {
  if (last_ && last_->width == width && last_->height == height) return *last_;
  auto sized = std::make_unique<Sized>();
  sized->width = width;
  sized->height = height;
  sized->encoder = model_.build(width, height);
  for (const models::vision::Stage& stage : sized->encoder.stages) {
    const size_t number = sized->executors.size();
    const bool known = last_ && number < last_->executors.size();
    sized->executors.push_back(executor_of(stage, known ? last_->executors[number].get() : nullptr));
  }
  last_ = std::move(sized);
  return *last_;
}

// Pixels of each patch, [red, green, blue][line][column], shifted and scaled.
std::vector<float> PictureReader::patches_of(const Sized& sized, const media::Picture& tile) const {
  const int64_t side = sized.encoder.patch, columns = tile.width / side, pixels = side * side;
  std::array<std::array<float, 256>, 3> values;
  for (int c = 0; c < 3; ++c)
    for (int v = 0; v < 256; ++v)
      values[c][v] =
          (static_cast<float>(v) / 255.0f - model_.mean()[c]) / model_.deviation()[c] * sized.encoder.pixel_scale +
          sized.encoder.pixel_shift;
  const std::vector<int32_t>& chosen = sized.encoder.stages[0].from;
  std::vector<float> patches(chosen.size() * 3 * pixels);
  float* out = patches.data();
  for (const int32_t patch : chosen) {
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

// Rows of the last stage, valid until the next call.
std::span<const float> PictureReader::encode_square(const Sized& sized, const media::Picture& square) {
  const std::vector<models::vision::Stage>& stages = sized.encoder.stages;
  const std::vector<float> patches = patches_of(sized, square);
  const double start = core::seconds_now();
  run(*sized.executors[0], stages[0], patches);
  for (size_t i = 1; i < stages.size(); ++i) {
    core::Executor &before = *sized.executors[i - 1], &executor = *sized.executors[i];
    std::vector<float> input;
    if (!executor.take_input(before, stages[i].from)) {
      const int64_t width = stages[i - 1].width();
      const std::vector<float> zeros(width);
      input =
          chosen_rows(rows_of(before, stages[i - 1]), width, stages[i].from, [&](int32_t) { return std::span(zeros); });
    }
    run(executor, stages[i], input);
  }
  const std::span<const float> rows = rows_of(*sized.executors.back(), stages.back());
  work_.seconds += core::seconds_now() - start;
  for (const models::vision::Stage& stage : stages)
    work_.flops += core::program_cost(stage.program, {.tokens = stage.rows(), .outputs = stage.rows()}).flops;
  work_.patches += stages[0].rows();
  return rows;
}

EncodedTile PictureReader::encode(const media::Picture& tile) {
  std::future<uint64_t> hash = std::async(std::launch::async, [&] { return hash_of(key_, tile); });
  const Sized& sized = sized_for(tile.width, tile.height);
  const models::vision::Encoder& encoder = sized.encoder;
  const int64_t width = tile.width / encoder.squares;
  std::vector<float> of_squares; // where there are several
  std::span<const float> rows;
  for (int64_t i = 0; i < encoder.squares; ++i) {
    rows = encode_square(sized, encoder.squares > 1 ? media::crop(tile, i * width, 0, width, tile.height) : tile);
    if (encoder.squares > 1) of_squares.insert(of_squares.end(), rows.begin(), rows.end());
  }
  if (encoder.squares > 1) rows = of_squares;
  EncodedTile encoded;
  encoded.width = encoder.width();
  encoded.tokens = std::ssize(encoder.tokens);
  encoded.columns = encoder.columns;
  encoded.lines = encoder.lines;
  encoded.framed = encoder.framed;
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
