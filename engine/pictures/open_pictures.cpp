#include "engine/pictures/open_pictures.h"

#include "core/error.h"
#include "engine/pictures/picture_reader.h"
#include "engine/pictures/picture_shelf.h"
#include "kernels/cuda/executor/executor.h"

#include <algorithm>
#include <exception>

namespace ridge::engine {

std::vector<std::string> fitting_encoders(const std::string& model, std::span<const std::string> files) {
  std::vector<std::string> fitting;
  if (files.empty()) return fitting;
  const gguf::File file = open_file(model, {});
  const core::Program program = models::build_program(file, models::Ending::pictures);
  std::exception_ptr problem;
  for (const std::string& path : files) {
    try {
      check_row_width(path, encoder_row_width(path), program, file.path());
      fitting.push_back(path);
    } catch (const Error&) {
      if (!problem) problem = std::current_exception();
    }
  }
  if (fitting.empty()) std::rethrow_exception(problem);
  return fitting;
}

PictureReader::Options encoding_options(const api::ModelOptions& options, const Notice& note) {
  const int gpu = placement_of(options).first_gpu();
  const bool on_gpu = options.device != "cpu" && kernels::cuda::device_info(gpu).usable;
  return {.threads = options.threads, .gpu = on_gpu ? gpu : -1, .note = note};
}

void add_pictures(LoadedModel& model, const api::ModelOptions& options, const Notice& note) {
  auto reader = std::make_unique<PictureReader>(options.mmproj, encoding_options(options, note));
  reader->check_fits(model.program, model.file.path());
  model.pictures = std::make_shared<PictureShelf>(std::move(reader));
}

Need encoder_need(const std::string& mmproj, int threads, const kernels::cuda::DeviceLimits* gpu) {
  const gguf::File file = gguf::File::open(mmproj);
  const Encoders encoders(file);
  Need most; // of the largest tile: tiles run one at a time
  const auto count = [&](const models::vision::Encoder& encoder) {
    Need need;
    for (const models::vision::Stage& stage : encoder.stages)
      need += gpu ? gpu_need(stage.program, encoder_config(stage.rows(), {}), *gpu)
                  : cpu_need(stage.program, encoder_config(stage.rows(), {.threads = threads}));
    if (need.total() > most.total()) most = need;
  };
  if (encoders.pictures)
    for (const models::vision::Part& part : encoders.pictures->cut(media::Picture(kPlannedSide, kPlannedSide)))
      if (part.tile) count(encoders.pictures->build(part.tile->width, part.tile->height));
  if (encoders.sounds)
    for (const models::sound::Part& part : encoders.sounds->cut(std::vector<float>(kPlannedSamples)))
      if (part.frames) count(encoders.sounds->build(part.frames->count));
  return most;
}

} // namespace ridge::engine
