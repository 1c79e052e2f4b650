#include "core/files/atomic_file.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ridge::core {
namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void touch(std::span<const std::byte> bytes) {
  constexpr size_t kPage = 4096;
  volatile std::byte read;
  for (size_t at = 0; at < bytes.size(); at += kPage) read = bytes[at];
  if (!bytes.empty()) read = bytes.back();
  (void)read;
}

} // namespace

AtomicFile::AtomicFile(const std::string& path, uint64_t expected_bytes, mode_t mode) : path_(path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw_error("{}: cannot be overwritten: {}", path,
                S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
  struct statvfs disk;
  // 0: unknown size
  if (::statvfs(folder_of(path).c_str(), &disk) == 0 && disk.f_blocks != 0) {
    const double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (static_cast<double>(expected_bytes) > free_bytes)
      throw_error("{}: needs {:.2f} GB, the disk has {:.2f} GB free", path, static_cast<double>(expected_bytes) / 1e9,
                  free_bytes / 1e9);
  }
  remove_leftovers();
  fd_ = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  for (auto number = static_cast<uint64_t>(::getpid()); fd_ < 0; ++number) {
    temporary_path_ = temporary_name(number);
    fd_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ < 0 && errno != EEXIST) fail("create");
    if (fd_ < 0) continue;
    ::flock(fd_, LOCK_EX);
    struct stat created;
    // removed by another writer as a leftover
    if (::fstat(fd_, &created) == 0 && created.st_nlink == 0) ::close(std::exchange(fd_, -1));
  }
}

std::string AtomicFile::temporary_name(uint64_t number) const { return fmt::format("{}.partial-{}", path_, number); }

// Writers hold locks; an unlocked temporary file is a leftover.
void AtomicFile::remove_leftovers() const {
  const std::string prefix = std::filesystem::path(path_).filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(path_), ignored)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
  fd_ = -1;
}

void AtomicFile::fail(const char* action) const {
  throw_error("{}: cannot {}: {}", path_, action, std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  bool touched = false;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    // write() of missing mapped pages fails without SIGBUS; touching them maps zeros (mapped_file.h).
    if (written < 0 && errno == EFAULT && !touched) {
      touch(bytes);
      touched = true;
      continue;
    }
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write to disk");
  publish();
  // Makes the rename survive a power cut; some file systems cannot sync folders and need not.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void AtomicFile::publish() {
  // Only rename replaces existing files, so a nameless file gets a temporary name.
  for (auto number = static_cast<uint64_t>(::getpid()); temporary_path_.empty(); ++number) {
    const std::string name = temporary_name(number);
    if (::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
        0)
      temporary_path_ = name;
    else if (errno != EEXIST)
      fail("link it");
  }
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("rename to its name");
  ::close(fd_);
  fd_ = -1;
}

} // namespace ridge::core
