#include "hub/incomplete_file.h"

#include "core/error.h"
#include "core/units.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace ridge::hub {
namespace {

struct Notes { // followed by int64_t bytes of each piece
  char magic[8] = {'r', 'i', 'd', 'g', 'e', 'p', 'u', 'l'};
  int64_t bytes = 0, piece_bytes = 0;
  char content[128] = {};
};

} // namespace

int64_t remove_interrupted_download(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return 0;
  struct stat info;
  const bool removed =
      ::flock(file, LOCK_EX | LOCK_NB) == 0 && ::fstat(file, &info) == 0 && ::unlink(path.c_str()) == 0;
  ::close(file);
  return removed ? info.st_blocks * 512 : 0;
}

IncompleteFile::IncompleteFile(std::string path, const std::function<bool()>& wait) : IncompleteFile(std::move(path)) {
  while (true) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd_ < 0) fail("create");
    struct stat opened, named;
    if (::fstat(fd_, &opened) != 0 || !S_ISREG(opened.st_mode))
      throw_error("{}: is not a regular file; remove it", path_);
    bool locked = false;
    while (!(locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0) && (errno == EWOULDBLOCK || errno == EINTR) && wait()) {
    }
    // The previous holder of the lock may have renamed or removed the file.
    const bool same =
        locked && ::lstat(path_.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
    if (same) return;
    ::close(fd_);
    fd_ = -1;
    if (!locked) throw_error("{}: another process is writing to it", path_);
  }
}

IncompleteFile::~IncompleteFile() {
  if (fd_ >= 0) ::close(fd_);
}

void IncompleteFile::fail(const char* action) const {
  throw_error("{}: cannot {}: {}", path_, action, std::strerror(errno));
}

void IncompleteFile::put(const void* data, size_t bytes, int64_t at) const {
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::pwrite(fd_, from, bytes, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write");
    from += n;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

void IncompleteFile::begin(int64_t bytes, int64_t piece_bytes, const std::string& content) {
  bytes_ = bytes;
  piece_bytes_ = piece_bytes;
  pieces_ = (bytes + piece_bytes - 1) / piece_bytes;
  have_ = std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(pieces_));
  Notes wanted, found;
  wanted.bytes = bytes;
  wanted.piece_bytes = piece_bytes;
  content.copy(wanted.content, sizeof wanted.content - 1);
  std::vector<int64_t> have(static_cast<size_t>(pieces_));
  const auto have_bytes = static_cast<ssize_t>(have.size() * sizeof(int64_t));
  const bool known = ::pread(fd_, &found, sizeof found, notes_at()) == sizeof found &&
                     std::memcmp(&found, &wanted, sizeof found) == 0 &&
                     ::pread(fd_, have.data(), static_cast<size_t>(have_bytes),
                             notes_at() + static_cast<int64_t>(sizeof found)) == have_bytes;
  for (int64_t i = 0; known && i < pieces_; ++i)
    have_[i] = std::clamp<int64_t>(have[static_cast<size_t>(i)], 0, end_of(i) - start_of(i));

  struct statvfs disk;
  struct stat info;
  if (!known && ::ftruncate(fd_, 0) != 0) fail("write");
  if (::fstatvfs(fd_, &disk) == 0 && disk.f_blocks != 0 && ::fstat(fd_, &info) == 0) {
    const double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    const double needed = static_cast<double>(bytes) - static_cast<double>(info.st_blocks) * 512;
    if (needed > free_bytes) {
      if (!known) remove();
      throw_error("{}: needs {}, the disk has {} free", path_, core::human_bytes(needed),
                  core::human_bytes(free_bytes));
    }
  }
  if (known) return;
  put(&wanted, sizeof wanted, notes_at());
  discard_progress();
}

int64_t IncompleteFile::total_bytes_present() const {
  int64_t sum = 0;
  for (int64_t i = 0; i < pieces_; ++i) sum += bytes_present(i);
  return sum;
}

int64_t IncompleteFile::contiguous_bytes() const {
  for (int64_t i = 0; i < pieces_; ++i)
    if (!is_full(i)) return start_of(i) + bytes_present(i);
  return bytes_;
}

void IncompleteFile::write(int64_t at, std::span<const char> bytes) {
  const int64_t piece = at / piece_bytes_;
  put(bytes.data(), bytes.size(), at);
  have_[piece] = at + std::ssize(bytes) - start_of(piece);
}

void IncompleteFile::note_progress(int64_t piece) {
  const int64_t have_now = bytes_present(piece);
  put(&have_now, sizeof have_now, notes_at() + static_cast<int64_t>(sizeof(Notes) + sizeof(int64_t) * piece));
}

void IncompleteFile::discard_progress() {
  for (int64_t i = 0; i < pieces_; ++i) have_[i] = 0;
  const std::vector<int64_t> none(static_cast<size_t>(pieces_), 0);
  put(none.data(), none.size() * sizeof(int64_t), notes_at() + static_cast<int64_t>(sizeof(Notes)));
}

size_t IncompleteFile::read(int64_t at, std::span<char> bytes) const {
  const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), at);
  if (n < 0) fail("read");
  return static_cast<size_t>(n);
}

void IncompleteFile::finish(const std::string& target) {
  if (::ftruncate(fd_, bytes_) != 0 || ::fsync(fd_) != 0) fail("write to disk");
  if (::rename(path_.c_str(), target.c_str()) != 0) fail("rename to its name");
  const int folder = ::open(std::filesystem::path(target).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void IncompleteFile::remove() { ::unlink(path_.c_str()); }

} // namespace ridge::hub
