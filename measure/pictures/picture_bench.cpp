#include "measure/pictures/picture_bench.h"

#include "core/error.h"
#include "engine/options.h"
#include "engine/pictures/open_pictures.h"
#include "measure/divergence.h"
#include "measure/peaks/peaks.h"
#include "models/model.h"
#include "models/sound/synthetic.h"
#include "models/synthetic.h"
#include "models/vision/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>

namespace ridge::measure {
namespace {

constexpr int64_t kTextTokens = 16; // after the picture

media::Picture random_picture(const std::string& size) {
  const size_t cross = size.find_first_of("xX");
  int64_t sides[2] = {};
  const std::string_view texts[] = {std::string_view(size).substr(0, cross),
                                    cross == size.npos ? std::string_view() : std::string_view(size).substr(cross + 1)};
  for (int i = 0; i < 2; ++i) {
    const char* end = texts[i].data() + texts[i].size();
    const auto [at, error] = std::from_chars(texts[i].data(), end, sides[i]);
    if (error != std::errc() || at != end || sides[i] < 1 || sides[i] > 16384)
      throw Error(fmt::format("--image: '{}' is not an image size; expected WIDTHxHEIGHT, such as 1024x1024", size),
                  Error::kUsage);
  }
  media::Picture picture(sides[0], sides[1]);
  std::mt19937 random(1);
  std::ranges::generate(picture.rgb, [&] { return static_cast<uint8_t>(random()); });
  return picture;
}

media::Sound random_sound(double seconds) {
  constexpr int64_t kRate = models::sound::kRate;
  if (!(seconds > 0 && seconds <= 3600))
    throw Error(fmt::format("--audio: {} seconds, expected up to 3600", seconds), Error::kUsage);
  media::Sound sound = {kRate, std::vector<float>(static_cast<size_t>(std::max(1.0, seconds * kRate)))};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> between(-0.5f, 0.5f);
  std::ranges::generate(sound.samples, [&] { return between(random); });
  return sound;
}

class PictureBench {
 public:
  PictureBench(engine::LoadedModel& model, engine::PictureReader& reader, const api::BenchRequest& request,
               const media::Medium& medium)
      : model_(model), reader_(reader), request_(request), medium_(medium) {}

  PictureRow run(const std::string& name, const api::ModelOptions& options, const engine::LoadSteps& steps) {
    read();
    start(options, steps);
    PictureRow row = {.model = name,
                      .projector = std::string(projector()),
                      .backend = reader_.on_gpu() ? "CUDA" : "CPU",
                      .device = std::string(model_.executor->description()),
                      .tokens = tokens_};
    if (const auto* picture = std::get_if<media::Picture>(&medium_)) {
      row.width = picture->width;
      row.height = picture->height;
    } else {
      row.sound_seconds = std::get<media::Sound>(medium_).seconds();
    }
    std::vector<double> program, encoding, first;
    for (int i = 0; i <= request_.repetitions; ++i) { // the first warms up
      const double start = core::seconds_now();
      read();
      const double encoded = core::seconds_now();
      evaluate();
      if (i == 0) continue;
      first.push_back(core::seconds_now() - start);
      encoding.push_back(encoded - start);
      program.push_back(reader_.work().seconds);
    }
    row.patches = reader_.work().patches;
    row.flops = reader_.work().flops;
    row.program_seconds = median(program);
    row.encoding_seconds = median(encoding);
    row.first_token_seconds = median(first);
    Peaks peaks(model_);
    row.peak = peaks.products();
    if (request_.profile) row.profiles = profiles(peaks.read_bytes_per_second());
    return row;
  }

 private:
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return quantile(values, 0.5);
  }

  std::string_view projector() const {
    const engine::Encoders& encoders = reader_.encoders();
    return std::holds_alternative<media::Sound>(medium_) ? encoders.for_sounds().kind().name
                                                         : encoders.for_pictures().projector().name;
  }

  void read() {
    text_.clear();
    pictures_ = {};
    tokens_ = 0;
    for (const engine::PictureReader::Piece& piece : reader_.read(medium_))
      if (piece.tile) {
        tokens_ += piece.tile->tokens;
        pictures_.append(text_, piece.tile);
      }
    text_.resize(text_.size() + kTextTokens, 1);
  }

  std::vector<StepProfile> profiles(double read_bytes_per_second) {
    std::vector<StepProfile> made;
    reader_.show_stages([&](core::Executor& executor, const models::vision::Stage& stage, const core::Batch& batch) {
      const core::Step step = {.tokens = stage.rows(), .outputs = stage.rows()};
      made.push_back(profile_batch(executor, stage.program, batch, step, read_bytes_per_second, 5));
    });
    return made;
  }

  void start(api::ModelOptions options, const engine::LoadSteps& steps) {
    options.context = std::ssize(text_);
    core::ExecutorConfig config = engine::executor_config(options, model_.program.trained_context);
    for (const engine::TextPictures::Place& place : pictures_.places())
      if (place.tile->sees_ahead) config.max_batch = std::max(config.max_batch, place.tile->tokens);
    engine::start_executor(model_, config, request_.device, engine::placement_of(options), steps);
  }

  void evaluate() {
    const int64_t count = std::ssize(text_), most = model_.executor->config().max_batch;
    for (int64_t at = 0, end = 0; at < count; at = end) {
      end = pictures_.end_of_part(at, std::min(count, at + most));
      engine::PlacedBatch batch;
      batch.append(std::span(text_).subspan(at, end - at), at, 0, &pictures_);
      if (end == count) batch.outputs.push_back(static_cast<int32_t>(count - 1 - at));
      model_.executor->forward(batch.batch(model_.program, model_.executor.get()));
    }
    model_.executor->logits(0);
  }

  engine::LoadedModel& model_;
  engine::PictureReader& reader_;
  const api::BenchRequest& request_;
  const media::Medium& medium_;
  std::vector<int32_t> text_;
  engine::TextPictures pictures_;
  int64_t tokens_ = 0;
};

} // namespace

std::vector<PictureRow> bench_pictures(const api::BenchRequest& request, const engine::LoadSteps& steps) {
  const BenchPlan plan = plan_bench(request, {});
  api::ModelOptions options = model_options(request, plan.settings[0]);
  options.device = request.device;
  const bool is_sound = request.sound_seconds > 0;
  const media::Medium medium =
      is_sound ? media::Medium(random_sound(request.sound_seconds)) : media::Medium(random_picture(request.image));
  if (request.files.empty() && request.shapes.empty())
    throw Error("--image and --audio: not supported by the built-in guide; give a model with -m, or a --shape",
                Error::kUsage);
  std::vector<PictureRow> rows;
  const auto run = [&](gguf::File file, gguf::File encoder, const std::string& name) {
    engine::PictureReader reader(std::move(encoder), engine::encoding_options(options, steps.note));
    engine::LoadedModel model = engine::open_model(std::move(file), models::Ending::pictures);
    reader.check_fits(model.program, name);
    rows.push_back(PictureBench(model, reader, request, medium).run(name, options, steps));
  };
  for (const std::string& path : request.files) {
    gguf::File file = engine::open_file(path, steps);
    const std::string label = models::model_label(file);
    run(std::move(file), gguf::File::open(request.mmproj), label);
  }
  for (const std::string& shape : request.shapes)
    run(gguf::File::from_bytes(models::synthetic_model(shape), shape),
        gguf::File::from_bytes(is_sound ? models::sound::synthetic_encoder(shape)
                                        : models::vision::synthetic_encoder(shape),
                               "encoder of " + shape),
        shape);
  return rows;
}

} // namespace ridge::measure
