// A read-only memory-mapped file. Pages are read when touched, so opening a 50 GB model costs nothing.
//
// Touching a page that is no longer there (another program shortened the file, its disk failed) raises SIGBUS, in
// whichever thread reads. A handler, installed with the first mapping, puts pages of zeros in place of the missing ones
// and marks the mapping: computing goes on with wrong numbers until its owner asks check(), which everyone does before
// a result leaves his hands. So readers need no guards, and nothing has to be unwound. Faults elsewhere go to the
// handler that was there before.
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
  bool deleted() const; // no folder names it any more; what is mapped stays

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

// Throws Error where some mapping of this process had pages missing and no check() has said so: the last thing a
// program does before it says that all went well.
void check_mappings();

} // namespace ridge::core
