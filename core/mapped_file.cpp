#include "core/mapped_file.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ridge::core {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw_error("{}: cannot open: {}", path, std::strerror(errno));
  struct stat info;
  const bool known = ::fstat(fd, &info) == 0;
  const int error = errno;
  std::string problem;
  if (!known) {
    problem = fmt::format("cannot read its size: {}", std::strerror(error));
  } else if (!S_ISREG(info.st_mode)) {
    problem = S_ISDIR(info.st_mode) ? "is a directory; name a file" : "is not a regular file";
  } else if (info.st_size == 0) {
    problem = "is empty";
  } else {
    void* address = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      problem = fmt::format("cannot map {} bytes: {}", info.st_size, std::strerror(errno));
    } else {
      data_ = static_cast<const std::byte*>(address);
      size_ = static_cast<size_t>(info.st_size);
    }
  }
  ::close(fd);
  if (!problem.empty()) throw_error("{}: {}", path, problem);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (start + page - 1) / page * page, last = (start + part.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED); // a file's pages: lossless
}

} // namespace ridge::core
