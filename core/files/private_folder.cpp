#include "core/files/private_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace ridge::core {

void create_private_folders(const std::string& path, std::error_code& problem) {
  namespace fs = std::filesystem;
  problem.clear();
  fs::path made;
  for (const fs::path& part : fs::path(path)) {
    made /= part;
    if (::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST && errno != EACCES && errno != EROFS)
      problem.assign(errno, std::generic_category());
  }
  std::error_code unreadable;
  if (fs::is_directory(path, unreadable))
    problem.clear();
  else if (!problem)
    problem =
        std::make_error_code(unreadable ? static_cast<std::errc>(unreadable.value()) : std::errc::not_a_directory);
}

} // namespace ridge::core
