#include "kernels/cuda/exchange/nccl_library.h"

#include "core/error.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <type_traits>

namespace ridge::kernels::cuda {
namespace {

constexpr const char* kNcclFile = "libnccl.so.2";
constexpr int kOldestNccl = 20900; // the first that works in captured streams

// PREFIX/lib/python3.*/{site,dist}-packages/nvidia/nccl/lib
void add_packages(const std::filesystem::path& prefix, std::vector<std::string>& files) {
  std::error_code none;
  for (const char* folder : {"lib", "lib64"})
    for (const auto& python : std::filesystem::directory_iterator(prefix / folder, none)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const std::filesystem::path file = python.path() / packages / "nvidia/nccl/lib" / kNcclFile;
        if (std::filesystem::exists(file, none)) files.push_back(file.string());
      }
    }
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

} // namespace

std::vector<std::string> nccl_files(const std::string& paths, const std::string& home) {
  if (const std::string named = variable("RIDGE_NCCL"); !named.empty()) return {named};
  std::vector<std::string> files = {kNcclFile};
  std::istringstream folders(paths);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path path(folder);
    if (path.is_absolute() && path.filename() == "bin") add_packages(path.parent_path(), files);
  }
  if (!home.empty()) add_packages(std::filesystem::path(home) / ".local", files);
  return files;
}

NcclLibrary load_nccl(const std::vector<std::string>& files) {
  // Multicast memory of NVLink switches may need rights that containers lack.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  NcclLibrary found;
  void* library = nullptr;
  for (const std::string& file : files)
    if ((library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
  const std::string name = files.empty() ? kNcclFile : files[0];
  if (!library) {
    found.problem = name + " is not there: pip install nvidia-nccl-cu13, or the system's package libnccl2 (RIDGE_NCCL "
                           "names a file elsewhere)";
    return found;
  }
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    return function != nullptr;
  };
  if (!find(found.get_version, "ncclGetVersion") || !find(found.get_unique_id, "ncclGetUniqueId") ||
      !find(found.init_rank, "ncclCommInitRank") || !find(found.all_reduce, "ncclAllReduce") ||
      !find(found.destroy, "ncclCommDestroy") || !find(found.abort, "ncclCommAbort") ||
      !find(found.error_string, "ncclGetErrorString") || found.get_version(&found.version) != 0)
    found.problem = name + " lacks NCCL's usual functions";
  else if (found.version < kOldestNccl)
    found.problem = fmt::format("{} is version {}: at least 2.9 works in CUDA graphs", name, found.version_text());
  return found;
}

const NcclLibrary& nccl() {
  static const NcclLibrary found = load_nccl(nccl_files(variable("PATH"), variable("HOME")));
  return found;
}

// Versions below 2.9 had three digits behind the first.
std::string NcclLibrary::version_text() const {
  const int major = version < 10000 ? version / 1000 : version / 10000;
  return fmt::format("{}.{}.{}", major, version / 100 % (version < 10000 ? 10 : 100), version % 100);
}

void NcclLibrary::expect(int status, const char* call) const {
  if (status != 0) throw_error("{} failed: {}", call, error_string(status));
}

} // namespace ridge::kernels::cuda
