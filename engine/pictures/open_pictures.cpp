#include "engine/pictures/open_pictures.h"

#include "core/error.h"
#include "engine/pictures/picture_shelf.h"
#include "kernels/cuda/executor/executor.h"

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

} // namespace ridge::engine
