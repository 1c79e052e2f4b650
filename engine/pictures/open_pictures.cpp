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

void settle_for_pictures(core::ModelOptions& options, const Notice& note) {
  if (options.device == "cuda")
    throw Error("--mmproj: models that take pictures run on the CPU only, for now: leave --device cuda out",
                Error::kUsage);
  if (options.speculation != "auto" && options.speculation != "off")
    throw Error("--mmproj: speculation does not work with pictures yet: leave --spec out", Error::kUsage);
  if (!options.draft_model.empty())
    throw Error("--mmproj: speculation does not work with pictures yet: leave --draft-model out", Error::kUsage);
  if (options.device != "cpu" && note && kernels::cuda::device_info(0).usable)
    note("models that take pictures run on the CPU only, for now");
  options.device = "cpu";
  options.speculation = "off";
}

LoadedModel open_with_pictures(gguf::File file, const core::ModelOptions& options) {
  auto reader = std::make_unique<PictureReader>(options.mmproj, PictureReader::Options{.threads = options.threads});
  LoadedModel model = open_model(std::move(file), models::Ending::pictures);
  reader->check_fits(model.program, model.file.path());
  model.pictures = std::make_shared<PictureShelf>(std::move(reader));
  return model;
}

} // namespace ridge::engine
