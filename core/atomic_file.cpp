#include "core/atomic_file.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace ridge::core {
namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

} // namespace

AtomicFile::AtomicFile(const std::string& path, uint64_t expected_bytes) : path_(path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw_error("{}: cannot be replaced: {}", path, S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
  struct statvfs disk;
  // f_blocks is 0 on file systems that do not know their size.
  if (::statvfs(folder_of(path).c_str(), &disk) == 0 && disk.f_blocks != 0) {
    const double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (static_cast<double>(expected_bytes) > free_bytes)
      throw_error("{}: needs {:.2f} GB, the disk has {:.2f} GB free", path, static_cast<double>(expected_bytes) / 1e9,
                  free_bytes / 1e9);
  }
  // Other writers of the same target, and leftovers of killed ones, have other numbers.
  for (uint64_t number = static_cast<uint64_t>(::getpid()); fd_ < 0; ++number) {
    temporary_path_ = fmt::format("{}.partial-{}", path, number);
    fd_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) fail("create");
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_path_.c_str());
  fd_ = -1;
}

void AtomicFile::fail(const char* action) const {
  throw_error("{}: cannot {}: {}", path_, action, std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write to disk");
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("rename to its name");
  ::close(fd_);
  fd_ = -1;
  // The rename itself survives a power cut once the folder is on the disk. File systems that cannot sync a folder have
  // no need to.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

} // namespace ridge::core
