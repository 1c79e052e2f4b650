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
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <numeric>
#include <thread>
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

// All rows of a stage.
class StageBatch {
 public:
  // Without `input`, that was taken from another stage's executor.
  StageBatch(const models::vision::Stage& stage, std::span<const float> input)
      : stage_(stage), input_(input), tokens_(stage.rows()), positions_(stage.rows()) {
    std::iota(positions_.begin(), positions_.end(), 0);
  }
  core::Batch batch() const {
    return {.tokens = tokens_,
            .positions = positions_,
            .input = input_,
            .input_taken = input_.empty(),
            .axes = stage_.axes,
            .block_ends = stage_.block_ends};
  }

 private:
  const models::vision::Stage& stage_;
  std::span<const float> input_;
  std::vector<int32_t> tokens_, positions_;
};

// What a stage gave last.
std::span<const float> rows_of(core::Executor& executor, const models::vision::Stage& stage) {
  return {executor.logits(0).data(), static_cast<size_t>(stage.rows() * stage.width())};
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

// Whether tokens are all rows, one after another.
bool is_in_order(std::span<const int32_t> tokens, int64_t rows) {
  if (std::ssize(tokens) != rows) return false;
  for (int64_t i = 0; i < rows; ++i)
    if (tokens[i] != i) return false;
  return true;
}

// Works on [0, count) in as many pieces as there are threads (0: cores), each of which has at least `least`.
void in_pieces(int64_t count, int64_t least, int threads, const std::function<void(int64_t begin, int64_t end)>& work) {
  const int64_t most = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  const int64_t pieces = std::clamp<int64_t>(count / least, 1, most);
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < pieces; ++i) others.emplace_back(work, count * i / pieces, count * (i + 1) / pieces);
  work(0, count / pieces);
}

bool all_finite(std::span<const float> values, int threads) {
  constexpr uint32_t kExponent = 0x7f800000;
  constexpr int64_t kWorthAThread = 1 << 20;
  std::atomic<bool> finite = true;
  in_pieces(std::ssize(values), kWorthAThread, threads, [&](int64_t begin, int64_t end) {
    uint32_t bad = 0;
    for (int64_t i = begin; i < end; ++i)
      bad |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent; // in vectors
    if (bad) finite = false;
  });
  return finite;
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
  sized->patches = sized->executors[0]->make_input(std::ssize(patches_in(*sized)));
  last_ = std::move(sized);
  return *last_;
}

std::span<float> PictureReader::patches_in(const Sized& sized) {
  const models::vision::Encoder& encoder = sized.encoder;
  return {sized.patches.get(), encoder.stages[0].from.size() * 3 * encoder.patch * encoder.patch};
}

// Pixels of each patch, [red, green, blue][line][column], shifted and scaled. Their memory is kept for the next tile:
// new pages cost as much as all the rest.
std::span<const float> PictureReader::patches_of(Sized& sized, const media::Picture& tile) const {
  const int64_t side = sized.encoder.patch, columns = tile.width / side, pixels = side * side;
  std::array<std::array<float, 256>, 3> values;
  for (int c = 0; c < 3; ++c)
    for (int v = 0; v < 256; ++v)
      values[c][v] =
          (static_cast<float>(v) / 255.0f - model_.mean()[c]) / model_.deviation()[c] * sized.encoder.pixel_scale +
          sized.encoder.pixel_shift;
  const std::vector<int32_t>& chosen = sized.encoder.stages[0].from;
  const std::span<float> patches = patches_in(sized);
  const auto make = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* out = patches.data() + i * 3 * pixels;
      const int64_t top = chosen[i] / columns * side, left = chosen[i] % columns * side;
      if (chosen[i] < 0) {
        std::fill_n(out, 3 * pixels, 0.0f);
        continue;
      }
      for (int64_t y = 0; y < side; ++y) {
        const uint8_t* pixel = tile.row(top + y) + 3 * left;
        for (int64_t x = 0; x < side; ++x)
          for (int c = 0; c < 3; ++c) out[c * pixels + y * side + x] = values[c][*pixel++];
      }
    }
  };
  constexpr int64_t kWorthAThread = 256;
  in_pieces(std::ssize(chosen), kWorthAThread, options_.threads, make);
  return patches;
}

// Rows of the stage before, as this one wants them. None where its executor took them where they are.
std::vector<float> PictureReader::input_of(Sized& sized, size_t stage) {
  const models::vision::Stage& before = sized.encoder.stages[stage - 1];
  const std::vector<int32_t>& from = sized.encoder.stages[stage].from;
  core::Executor& executor = *sized.executors[stage - 1];
  if (sized.executors[stage]->take_input(executor, from)) return {};
  const std::vector<float> zeros(before.width());
  return chosen_rows(rows_of(executor, before), before.width(), from, [&](int32_t) { return std::span(zeros); });
}

// Rows of the last stage.
std::shared_ptr<const float> PictureReader::encode_square(Sized& sized, const media::Picture& square) {
  const std::vector<models::vision::Stage>& stages = sized.encoder.stages;
  const std::span<const float> patches = patches_of(sized, square);
  const double start = core::seconds_now();
  sized.executors[0]->forward(StageBatch(stages[0], patches).batch());
  for (size_t i = 1; i < stages.size(); ++i) {
    const std::vector<float> input = input_of(sized, i);
    sized.executors[i]->forward(StageBatch(stages[i], input).batch());
  }
  std::shared_ptr<const float> rows = sized.executors.back()->take_rows(stages.back().rows());
  work_.seconds += core::seconds_now() - start;
  for (const models::vision::Stage& stage : stages)
    work_.flops += core::program_cost(stage.program, {.tokens = stage.rows(), .outputs = stage.rows()}).flops;
  work_.patches += stages[0].rows();
  return rows;
}

// Those of all squares, one after another.
std::shared_ptr<const float> PictureReader::encode_squares(Sized& sized, const media::Picture& tile) {
  const models::vision::Encoder& encoder = sized.encoder;
  const int64_t width = tile.width / encoder.squares, floats = encoder.stages.back().rows() * encoder.width();
  const auto all = std::make_shared_for_overwrite<float[]>(encoder.squares * floats);
  for (int64_t i = 0; i < encoder.squares; ++i)
    std::copy_n(encode_square(sized, media::crop(tile, i * width, 0, width, tile.height)).get(), floats,
                all.get() + i * floats);
  return {all, all.get()};
}

EncodedTile PictureReader::encode(const media::Picture& tile) {
  std::future<uint64_t> hash = std::async(std::launch::async, [&] { return hash_of(key_, tile); });
  Sized& sized = sized_for(tile.width, tile.height);
  const models::vision::Encoder& encoder = sized.encoder;
  EncodedTile encoded;
  encoded.width = encoder.width();
  encoded.tokens = std::ssize(encoder.tokens);
  encoded.columns = encoder.columns;
  encoded.lines = encoder.lines;
  encoded.framed = encoder.framed;
  encoded.sees_ahead = model_.sees_ahead(encoded.width);
  encoded.rows = encoder.squares > 1 ? encode_squares(sized, tile) : encode_square(sized, tile);
  const int64_t encoded_rows = encoder.squares * encoder.stages.back().rows();
  if (!is_in_order(encoder.tokens, encoded_rows)) {
    const auto chosen = std::make_shared<const std::vector<float>>(chosen_rows(
        {encoded.rows.get(), static_cast<size_t>(encoded_rows * encoded.width)}, encoded.width, encoder.tokens,
        [&](int32_t row) { return std::span(encoder.further).subspan(row * encoded.width, encoded.width); }));
    encoded.rows = {chosen, chosen->data()};
  }
  if (!all_finite(encoded.all_rows(), options_.threads))
    throw_error("{}: gives no numbers for a picture: the file is broken", file_.path());
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

void PictureReader::show_stages(const StageUse& use) {
  if (!last_) return;
  const std::vector<models::vision::Stage>& stages = last_->encoder.stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::vector<float> of_stage = i == 0 ? std::vector<float>() : input_of(*last_, i);
    const std::span<const float> input = i == 0 ? patches_in(*last_) : std::span<const float>(of_stage);
    use(*last_->executors[i], stages[i], StageBatch(stages[i], input).batch());
  }
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
