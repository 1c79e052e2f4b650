#include "server/models/model_file.h"

#include "core/error.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>

namespace ridge::server {

namespace fs = std::filesystem;

std::string model_name(const std::string& path) {
  static const std::regex part("-[0-9]{5}-of-[0-9]{5}$");
  return std::regex_replace(fs::path(path).stem().string(), part, "");
}

namespace {

using IsModel = std::function<bool(const std::string& name)>;

// Without its subfolders; those are appended to `folders`.
std::vector<ModelFile> files_in(const fs::path& folder, const IsModel& is_model, std::vector<fs::path>& folders,
                                std::error_code& error) {
  static const std::regex later_part("-(?!00001)[0-9]{5}-of-[0-9]{5}$");
  std::vector<ModelFile> files;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code ignored;
    if (at->is_directory(ignored) && !path.filename().string().starts_with('.')) folders.push_back(path);
    if (path.extension() == ".gguf" && at->is_regular_file(ignored) && is_model(path.filename().string()) &&
        !std::regex_search(path.stem().string(), later_part))
      files.push_back({model_name(path.string()), path.string()});
  }
  return files;
}

} // namespace

std::vector<ModelFile> model_files(const std::string& folder, const IsModel& is_model) {
  std::error_code error;
  std::vector<fs::path> folders, deeper;
  std::vector<ModelFile> files = files_in(folder, is_model, folders, error);
  if (error) throw_error("--models-dir: {}: {}", folder, error.message());
  for (const fs::path& one : folders) {
    std::vector<ModelFile> inside = files_in(one, is_model, deeper, error); // what is unreadable has none
    if (inside.size() == 1) inside[0].name = one.filename().string();
    std::ranges::move(inside, std::back_inserter(files));
  }
  if (files.empty()) throw_error("--models-dir: {}: contains no GGUF files", folder);
  std::ranges::sort(files, {}, &ModelFile::name);
  return files;
}

} // namespace ridge::server
