// A read-only memory-mapped file. Pages are read when touched, so opening a 50 GB model costs nothing.
//
// Touching a page that is no longer there (another program shortened the file, its disk failed) raises SIGBUS in
// the reading thread. A handler, installed with the first mapping, puts pages of zeros in place of the missing ones
// and marks the mapping. Computation continues with wrong numbers until the owner of the mapping calls check(), which
// every user does before it publishes a result. So readers need no guards, and no stack is unwound. Faults elsewhere go
// to the previous handler.
#pragma once

#include <csignal>
#include <cstddef>
#include <span>
#include <string>

namespace ridge::core {

class MappedFile {
 public:
  // Throws Error when the file is missing, a directory, unreadable or empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Throws Error where pages were missing or the file is shorter than what is mapped. Costs a system call.
  void check() const;
  bool deleted() const; // the file was deleted from its folder; the mapping stays valid

  // The pages that lie wholly in `part`, a piece of bytes(), no longer count as this process's memory; they are read
  // again when touched.
  void release(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  struct GuardedRange;
  static GuardedRange* guard(const std::byte* data, size_t size);
  static void handle_missing_page(int signal, siginfo_t* info, void* context);
  GuardedRange* range_ = nullptr;
};

// Throws Error where a mapping of this process had missing pages that no check() has reported. A program calls it last,
// before it reports success.
void check_mappings();

} // namespace ridge::core
