#include "app/window/recent_files.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/xdg.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

namespace ridge::app {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxFiles = 12;

std::vector<std::string> read_list() {
  std::vector<std::string> paths;
  if (core::state_folder().empty()) return paths;
  std::ifstream file(core::state_folder() + "/recent");
  for (std::string line; paths.size() < kMaxFiles && std::getline(file, line);)
    if (!line.empty()) paths.push_back(line);
  return paths;
}

} // namespace

std::vector<std::string> recent_files() {
  std::vector<std::string> paths = read_list();
  std::error_code ignored;
  std::erase_if(paths, [&](const std::string& path) { return !fs::is_regular_file(path, ignored); });
  return paths;
}

void remember_file(const std::string& path) {
  std::error_code problem;
  const std::string whole = fs::absolute(path, problem).lexically_normal().string();
  if (problem || core::state_folder().empty() || whole.find('\n') != std::string::npos) return;
  std::vector<std::string> paths = read_list();
  std::erase(paths, whole);
  paths.insert(paths.begin(), whole);
  paths.resize(std::min(paths.size(), kMaxFiles));
  std::string text;
  for (const std::string& each : paths) text += each + "\n";
  core::create_private_folders(core::state_folder(), problem);
  if (problem) return;
  try {
    core::AtomicFile file(core::state_folder() + "/recent", text.size(), core::kPrivateFile);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const Error&) { // best effort
  }
}

} // namespace ridge::app
