#include "core/files/mapped_file.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace ridge::core {

// Ranges are reused and never freed, so that the handler may always walk the list.
struct MappedFile::GuardedRange {
  std::atomic<uintptr_t> begin = 0, end = 0; // begin 0: unused
  std::atomic<bool> missing = false;
  GuardedRange* next = nullptr;

  static std::atomic<GuardedRange*> first;
};
std::atomic<MappedFile::GuardedRange*> MappedFile::GuardedRange::first = nullptr;

namespace {

struct sigaction previous_handler;
std::atomic<bool> unreported = false;
std::mutex ranges_mutex; // held while adding a range

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

} // namespace

// Uses only lock-free atomics and system calls; mmap is one on Linux, though POSIX does not list it.
void MappedFile::handle_missing_page(int, siginfo_t* info, void*) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedRange* range = GuardedRange::first; range; range = range->next) {
    const uintptr_t begin = range->begin, end = range->end;
    if (begin == 0 || address < begin || address >= end) continue;
    range->missing = unreported = true;
    // To the end: a truncated file lacks all later pages.
    const uintptr_t page = address / page_bytes() * page_bytes();
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = error;
    if (zeros != MAP_FAILED) return;
    break;
  }
  ::sigaction(SIGBUS, &previous_handler, nullptr); // the instruction faults again
}

MappedFile::GuardedRange* MappedFile::guard(const std::byte* data, size_t size) {
  const std::lock_guard lock(ranges_mutex);
  static const bool installed = [] {
    page_bytes(); // cached before the handler needs it
    struct sigaction action = {};
    action.sa_sigaction = handle_missing_page;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return ::sigaction(SIGBUS, &action, &previous_handler) == 0;
  }();
  if (!installed) return nullptr;
  GuardedRange* range = GuardedRange::first;
  while (range && range->begin != 0) range = range->next;
  if (!range) {
    range = new GuardedRange; // never freed
    range->next = GuardedRange::first;
    GuardedRange::first = range;
  }
  range->missing = false;
  range->end = reinterpret_cast<uintptr_t>(data) + (size + page_bytes() - 1) / page_bytes() * page_bytes();
  range->begin = reinterpret_cast<uintptr_t>(data);
  return range;
}

void check_mappings() {
  if (unreported)
    throw_error("a file was truncated while it was being read, or its disk failed: the results are wrong");
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw_error("{}: cannot open: {}", path, std::strerror(errno));
  struct stat info;
  const bool known = ::fstat(fd, &info) == 0;
  const int error = errno;
  std::string problem;
  if (!known) {
    problem = fmt::format("cannot read its size: {}", std::strerror(error));
  } else if (!S_ISREG(info.st_mode)) {
    problem = S_ISDIR(info.st_mode) ? "is a directory; give a file" : "is not a regular file";
  } else if (info.st_size == 0) {
    problem = "is empty";
  } else {
    void* address = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      problem = fmt::format("cannot map {} bytes: {}", info.st_size, std::strerror(errno));
    } else {
      data_ = static_cast<const std::byte*>(address);
      size_ = static_cast<size_t>(info.st_size);
      range_ = guard(data_, size_);
      fd_ = fd;
    }
  }
  if (problem.empty()) return;
  ::close(fd);
  throw_error("{}: {}", path, problem);
}

MappedFile::~MappedFile() {
  if (range_) range_->begin = 0;
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::check() const {
  const bool missing = range_ && range_->missing;
  if (missing) unreported = false;
  struct stat info;
  const bool known = ::fstat(fd_, &info) == 0;
  if (known && static_cast<uint64_t>(info.st_size) < size_)
    throw_error(
        "{}: another program truncated it from {} to {} bytes while it was open; open it again when it is complete",
        path_, size_, info.st_size);
  if (missing)
    throw_error("{}: a part could not be read: it was truncated for a while, or its disk failed; open it again", path_);
}

bool MappedFile::deleted() const {
  struct stat info;
  return ::fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

void MappedFile::release(std::span<const std::byte> part) const {
  const uintptr_t page = page_bytes();
  const auto start = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (start + page - 1) / page * page, last = (start + part.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED); // file-backed: lossless
}

} // namespace ridge::core
