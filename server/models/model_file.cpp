#include "server/models/model_file.h"

#include "core/error.h"

#include <algorithm>
#include <filesystem>
#include <regex>

namespace ridge::server {

namespace fs = std::filesystem;

std::string model_name(const std::string& path) {
  static const std::regex part("-[0-9]{5}-of-[0-9]{5}$");
  return std::regex_replace(fs::path(path).stem().string(), part, "");
}

std::vector<ModelFile> model_files(const std::string& folder) {
  static const std::regex later_part("-(?!00001)[0-9]{5}-of-[0-9]{5}$");
  std::error_code error;
  std::vector<ModelFile> files;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code ignored;
    if (path.extension() == ".gguf" && at->is_regular_file(ignored) &&
        !std::regex_search(path.stem().string(), later_part))
      files.push_back({model_name(path.string()), path.string()});
  }
  if (error) throw_error("--models-dir: {}: {}", folder, error.message());
  if (files.empty()) throw_error("--models-dir: {}: contains no GGUF files", folder);
  std::ranges::sort(files, {}, &ModelFile::name);
  return files;
}

} // namespace ridge::server
