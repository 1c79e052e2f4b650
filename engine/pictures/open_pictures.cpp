#include "engine/pictures/open_pictures.h"

#include "core/error.h"
#include "core/strings/lower.h"
#include "engine/pictures/picture_shelf.h"
#include "kernels/cuda/executor/executor.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace ridge::engine {

std::string find_mmproj(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path folder = fs::path(model).has_parent_path() ? fs::path(model).parent_path() : fs::path(".");
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = core::lower(at->path().filename().string());
    if (name.starts_with("mmproj") && name.ends_with(".gguf")) found.push_back(at->path().string());
  }
  if (found.empty()) return {};
  const auto rank = [](const std::string& path) {
    const std::string name = core::lower(path);
    const bool f16 = name.find("f16") != name.npos && name.find("bf16") == name.npos;
    return std::pair(!f16, path);
  };
  return *std::ranges::min_element(found, {}, rank);
}

void settle_for_pictures(core::ModelOptions& options) {
  if (options.speculation == "mtp" || options.speculation == "draft" || !options.draft_model.empty())
    throw Error("--mmproj: draft heads and models do not work with pictures yet: use --spec ngram or off",
                Error::kUsage);
  if (options.speculation == "auto") options.speculation = "ngram";
}

PictureReader::Options encoding_options(const core::ModelOptions& options, const Notice& note) {
  const int gpu = placement_of(options).first_gpu();
  const bool on_gpu = options.device != "cpu" && kernels::cuda::device_info(gpu).usable;
  return {.threads = options.threads, .gpu = on_gpu ? gpu : -1, .note = note};
}

LoadedModel open_with_pictures(gguf::File file, const core::ModelOptions& options, const Notice& note) {
  auto reader = std::make_unique<PictureReader>(options.mmproj, encoding_options(options, note));
  LoadedModel model = open_model(std::move(file), models::Ending::pictures);
  reader->check_fits(model.program, model.file.path());
  model.pictures = std::make_shared<PictureShelf>(std::move(reader));
  return model;
}

} // namespace ridge::engine
