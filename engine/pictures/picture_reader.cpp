#include "engine/pictures/picture_reader.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/files/sha256.h"
#include "engine/loading/model_key.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "media/pictures/resize.h"

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

// All clients share prefixes by this hash. It is cryptographic, so no client can forge another's picture.
uint64_t hash_of(std::string_view key, std::string_view shape, std::span<const std::byte> bytes) {
  const core::Sha256::Digest digest = core::Sha256().add(key).add(shape).add(bytes).digest();
  uint64_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

class StageBatch {
 public:
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

std::span<const float> rows_of(core::Executor& executor, const models::vision::Stage& stage) {
  return {executor.logits(0).data(), static_cast<size_t>(stage.rows() * stage.width())};
}

// An index i below 0 selects other(-1 - i).
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

bool is_in_order(std::span<const int32_t> tokens, int64_t rows) {
  if (std::ssize(tokens) != rows) return false;
  for (int64_t i = 0; i < rows; ++i)
    if (tokens[i] != i) return false;
  return true;
}

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
      bad |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent; // vectorizes
    if (bad) finite = false;
  });
  return finite;
}

int64_t row_width_of(const models::vision::Model& model) {
  for (const models::vision::Part& part : model.cut(media::Picture(64, 64)))
    if (part.tile) return model.build(part.tile->width, part.tile->height).width();
  return 0;
}

int64_t row_width_of(const models::sound::Model& model) {
  const std::vector<float> silence(models::sound::kRate / 10);
  for (const models::sound::Part& part : model.cut(silence))
    if (part.frames) return model.build(part.frames->count).width();
  return 0;
}

template <typename Model>
std::optional<Model> encoder_in(const gguf::File& file, std::string& problem) {
  try {
    return Model(file);
  } catch (const core::Error& error) {
    problem = error.what();
    return std::nullopt;
  }
}

} // namespace

Encoders::Encoders(const gguf::File& file)
    : path(file.path()), pictures(encoder_in<models::vision::Model>(file, no_pictures)),
      sounds(encoder_in<models::sound::Model>(file, no_sounds)) {
  const bool is_of_sound_only =
      file.get_bool("clip.has_audio_encoder", false) && !file.get_bool("clip.has_vision_encoder", false);
  if (!pictures && !sounds) throw Error(is_of_sound_only ? no_sounds : no_pictures);
  if (pictures && sounds) try { // pictures still work if the sound encoder is unknown
      row_width_of(*sounds);
    } catch (const core::Error& error) {
      no_sounds = error.what();
      sounds.reset();
    }
}

const models::vision::Model& Encoders::for_pictures() const {
  if (!pictures) throw Error(no_pictures);
  return *pictures;
}
const models::sound::Model& Encoders::for_sounds() const {
  if (!sounds) throw Error(no_sounds);
  return *sounds;
}

int64_t Encoders::row_width() const {
  const int64_t width = pictures ? row_width_of(*pictures) : row_width_of(*sounds);
  if (pictures && sounds && row_width_of(*sounds) != width)
    throw_error("{}: its image encoder produces rows of {} elements, its audio encoder rows of {}", path, width,
                row_width_of(*sounds));
  return width;
}

core::ExecutorConfig encoder_config(int64_t rows, const PictureReader::Options& options) {
  core::ExecutorConfig config = {.context = rows, .max_batch = rows, .max_outputs = 0, .rewind_tokens = 0};
  config.threads = options.threads;
  config.exact = options.exact;
  config.k_type = config.v_type = options.exact ? core::KvType::f32 : core::KvType::f16;
  return config;
}

Senses senses_of(const std::string& mmproj) {
  try {
    const gguf::File file = gguf::File::open(mmproj);
    return Encoders(file).senses();
  } catch (const core::Error&) {
    return {};
  }
}

int64_t encoder_row_width(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  return Encoders(file).row_width();
}

void check_row_width(const std::string& encoder, int64_t width, const core::Program& program,
                     const std::string& model) {
  if (program.row_width != width)
    throw_error("{}: produces rows of {} elements, but {} takes {}: the files do not belong together", encoder, width,
                model, program.row_width);
}

PictureReader::PictureReader(gguf::File file, const Options& options)
    : file_(std::move(file)), encoders_(file_), options_(options), key_(model_key(file_)),
      row_width_(encoders_.row_width()) {}

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
      if (options_.note) options_.note(fmt::format("images and audio are encoded on the CPU: {}", error.what()));
    }
  return kernels::cpu::make_cpu_executor(stage.program, config);
}

PictureReader::Sized& PictureReader::sized_for(const Size& size) {
  std::unique_ptr<Sized>& last = last_[static_cast<size_t>(size.media)];
  if (!last || last->size != size) {
    auto sized = std::make_unique<Sized>(Sized{.size = size});
    sized->encoder = size.media == models::vision::Media::picture
                         ? encoders_.for_pictures().build(size.width, size.height)
                         : encoders_.for_sounds().build(size.width);
    for (const models::vision::Stage& stage : sized->encoder.stages) {
      const size_t number = sized->executors.size();
      const bool known = last && number < last->executors.size();
      sized->executors.push_back(executor_of(stage, known ? last->executors[number].get() : nullptr));
    }
    kernels::cuda::expect_sending(*sized->executors.back());
    sized->input = sized->executors[0]->make_input(std::ssize(first_input(*sized)));
    last = std::move(sized);
  }
  latest_ = last.get();
  return *last;
}

std::span<float> PictureReader::first_input(const Sized& sized) {
  const models::vision::Encoder& encoder = sized.encoder;
  return {sized.input.get(), encoder.stages[0].from.size() * encoder.input_width};
}

// Normalized pixels, [red, green, blue][line][column]. Reuses the memory, since new pages cost as much as the rest.
void PictureReader::take_patches(Sized& sized, const models::vision::Tile& tile) const {
  const int64_t side = sized.encoder.patch, columns = tile.width / side, pixels = side * side;
  const models::vision::Model& model = encoders_.for_pictures();
  const auto normalized = [&](float level, int c) {
    return (level / 255.0f - model.mean()[c]) / model.deviation()[c] * sized.encoder.pixel_scale +
           sized.encoder.pixel_shift;
  };
  std::array<std::array<float, 256>, 3> values;
  for (int c = 0; c < 3; ++c)
    for (int v = 0; v < 256; ++v) values[c][v] = normalized(static_cast<float>(v), c);
  const std::vector<int32_t>& chosen = sized.encoder.stages[0].from;
  const std::span<float> patches = first_input(sized);
  const auto make = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* out = patches.data() + i * 3 * pixels;
      const int64_t top = chosen[i] / columns * side, left = chosen[i] % columns * side;
      if (chosen[i] < 0) {
        std::fill_n(out, 3 * pixels, 0.0f);
        continue;
      }
      for (int64_t y = 0; y < side; ++y) {
        if (!tile.levels.empty()) {
          const float* level = tile.levels.data() + ((top + y) * tile.width + left) * 3;
          for (int64_t x = 0; x < side; ++x)
            for (int c = 0; c < 3; ++c) out[c * pixels + y * side + x] = normalized(*level++, c);
          continue;
        }
        const uint8_t* pixel = tile.row(top + y) + 3 * left;
        for (int64_t x = 0; x < side; ++x)
          for (int c = 0; c < 3; ++c) out[c * pixels + y * side + x] = values[c][*pixel++];
      }
    }
  };
  constexpr int64_t kWorthAThread = 256;
  in_pieces(std::ssize(chosen), kWorthAThread, options_.threads, make);
}

// Returns nothing if the executor has taken the rows directly.
std::vector<float> PictureReader::input_of(Sized& sized, size_t stage) {
  const models::vision::Stage& before = sized.encoder.stages[stage - 1];
  const std::vector<int32_t>& from = sized.encoder.stages[stage].from;
  core::Executor& executor = *sized.executors[stage - 1];
  if (sized.executors[stage]->take_input(executor, from)) return {};
  const std::vector<float> zeros(before.width());
  return chosen_rows(rows_of(executor, before), before.width(), from, [&](int32_t) { return std::span(zeros); });
}

PictureReader::Rows PictureReader::encode_square(Sized& sized, const models::vision::Tile& square) {
  take_patches(sized, square);
  return run(sized);
}

PictureReader::Rows PictureReader::run(Sized& sized) {
  const std::vector<models::vision::Stage>& stages = sized.encoder.stages;
  const double start = core::seconds_now();
  sized.executors[0]->forward(StageBatch(stages[0], first_input(sized)).batch());
  for (size_t i = 1; i < stages.size(); ++i) {
    const std::vector<float> input = input_of(sized, i);
    sized.executors[i]->forward(StageBatch(stages[i], input).batch());
  }
  core::Executor& last = *sized.executors.back();
  const kernels::cuda::SentResult sent = kernels::cuda::send_result_rows(last, stages.back().rows());
  Rows rows = {sent.rows, sent.arrive, sent.finite};
  if (!rows.memory) rows = {last.copy_result_rows(stages.back().rows())};
  work_.seconds += core::seconds_now() - start;
  for (const models::vision::Stage& stage : stages)
    work_.flops += core::program_cost(stage.program, {.tokens = stage.rows(), .outputs = stage.rows()}).flops;
  work_.patches += stages[0].rows();
  return rows;
}

PictureReader::Rows PictureReader::encode_squares(Sized& sized, const media::Picture& tile) {
  const models::vision::Encoder& encoder = sized.encoder;
  const int64_t width = tile.width / encoder.squares, floats = encoder.stages.back().rows() * encoder.width();
  const auto all = std::make_shared_for_overwrite<float[]>(encoder.squares * floats);
  for (int64_t i = 0; i < encoder.squares; ++i) {
    const Rows rows = encode_square(sized, media::crop(tile, i * width, 0, width, tile.height));
    if (rows.arrive) rows.arrive();
    std::copy_n(rows.memory.get(), floats, all.get() + i * floats);
  }
  return {{all, all.get()}};
}

EncodedTile PictureReader::encode(const models::vision::Tile& tile) {
  std::future<uint64_t> hash = std::async(std::launch::async, [&] {
    return hash_of(key_, fmt::format(" {} ", tile.width),
                   tile.levels.empty() ? std::as_bytes(std::span(tile.rgb)) : std::as_bytes(std::span(tile.levels)));
  });
  Sized& sized = sized_for({models::vision::Media::picture, tile.width, tile.height});
  EncodedTile encoded =
      finish(sized.encoder.squares > 1 ? encode_squares(sized, tile) : encode_square(sized, tile), sized);
  encoded.sees_ahead = encoders_.for_pictures().sees_ahead(sized.encoder.width());
  encoded.hash = hash.get();
  return encoded;
}

EncodedTile PictureReader::encode(const models::sound::Frames& frames) {
  Sized& sized = sized_for({models::vision::Media::sound, frames.count, frames.width});
  const models::vision::Stage& first = sized.encoder.stages[0];
  const int64_t width = sized.encoder.input_width;
  const std::vector<float> zeros(width);
  std::ranges::copy(chosen_rows(frames.values, width, first.from, [&](int32_t) { return std::span(zeros); }),
                    first_input(sized).begin());
  EncodedTile encoded = finish(run(sized), sized);
  encoded.hash = hash_of(key_, fmt::format(" sound {} ", frames.count), std::as_bytes(std::span(frames.values)));
  return encoded;
}

EncodedTile PictureReader::finish(const Rows& rows, const Sized& sized) const {
  const models::vision::Encoder& encoder = sized.encoder;
  EncodedTile encoded;
  encoded.rows = rows.memory;
  encoded.arrive = rows.arrive;
  encoded.width = encoder.width();
  encoded.tokens = std::ssize(encoder.tokens);
  encoded.columns = encoder.columns;
  encoded.lines = encoder.lines;
  encoded.framed = encoder.framed;
  const int64_t encoded_rows = encoder.squares * encoder.stages.back().rows();
  bool finite = rows.finite;
  if (!is_in_order(encoder.tokens, encoded_rows)) {
    encoded.wait_for_rows();
    finite = false; // rows of the file are among them
    const auto chosen = std::make_shared<const std::vector<float>>(chosen_rows(
        {encoded.rows.get(), static_cast<size_t>(encoded_rows * encoded.width)}, encoded.width, encoder.tokens,
        [&](int32_t row) { return std::span(encoder.further).subspan(row * encoded.width, encoded.width); }));
    encoded.rows = {chosen, chosen->data()};
    encoded.arrive = {};
  }
  if (!finite && !all_finite(encoded.all_rows(), options_.threads))
    throw_error("{}: produced NaN or infinite values for {}: the file is damaged", file_.path(),
                sized.size.media == models::vision::Media::picture ? "an image" : "audio");
  file_.check();
  return encoded;
}

std::vector<PictureReader::Piece> PictureReader::read(const media::Picture& picture) {
  std::vector<Piece> pieces;
  work_ = {};
  for (const models::vision::Part& part : encoders_.for_pictures().cut(picture)) {
    if (part.tile)
      pieces.push_back({.tile = std::make_shared<const EncodedTile>(encode(*part.tile))});
    else
      pieces.push_back({.text = part.text, .otherwise = part.otherwise});
  }
  return pieces;
}

std::vector<PictureReader::Piece> PictureReader::read(const media::Sound& sound) {
  std::vector<Piece> pieces;
  work_ = {};
  for (const models::sound::Part& part : encoders_.for_sounds().cut(media::resampled(sound, models::sound::kRate))) {
    if (part.frames)
      pieces.push_back({.tile = std::make_shared<const EncodedTile>(encode(*part.frames))});
    else
      pieces.push_back({.text = part.text});
  }
  return pieces;
}

void PictureReader::show_stages(const StageUse& use) {
  if (!latest_) return;
  const std::vector<models::vision::Stage>& stages = latest_->encoder.stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::vector<float> of_stage = i == 0 ? std::vector<float>() : input_of(*latest_, i);
    const std::span<const float> input = i == 0 ? first_input(*latest_) : std::span<const float>(of_stage);
    use(*latest_->executors[i], stages[i], StageBatch(stages[i], input).batch());
  }
}

int64_t PictureReader::count_tokens(const media::Picture& picture) const {
  int64_t tokens = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> by_size;
  const models::vision::Model& model = encoders_.for_pictures();
  for (const models::vision::Part& part : model.cut(picture)) {
    if (!part.tile) continue;
    const auto [count, is_new] = by_size.try_emplace({part.tile->width, part.tile->height});
    if (is_new) count->second = std::ssize(model.build(part.tile->width, part.tile->height).tokens);
    tokens += count->second;
  }
  return tokens;
}

int64_t PictureReader::count_tokens(const media::Sound& sound) const {
  int64_t tokens = 0;
  std::map<int64_t, int64_t> by_frames;
  const models::sound::Model& model = encoders_.for_sounds();
  for (const models::sound::Part& part : model.cut(media::resampled(sound, models::sound::kRate))) {
    if (!part.frames) continue;
    const auto [count, is_new] = by_frames.try_emplace(part.frames->count);
    if (is_new) count->second = std::ssize(model.build(part.frames->count).tokens);
    tokens += count->second;
  }
  return tokens;
}

} // namespace ridge::engine
