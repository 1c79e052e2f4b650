#include "engine/pictures/open_pictures.h"

#include "core/error.h"
#include "core/strings/lower.h"
#include "engine/pictures/picture_shelf.h"
#include "kernels/cuda/executor/executor.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
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
  const std::string own = core::lower("mmproj-" + fs::path(model).filename().string());
  const auto rank = [&](const std::string& path) {
    const std::string name = core::lower(fs::path(path).filename().string());
    const bool f16 = name.find("f16") != name.npos && name.find("bf16") == name.npos;
    return std::tuple(name != own, !f16, path);
  };
  return *std::ranges::min_element(found, {}, rank);
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
