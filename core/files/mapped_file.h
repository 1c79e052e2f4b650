// A read-only mapped file.
// Missing pages (a truncated file, a failing disk) raise SIGBUS. The handler maps zeros instead and marks the mapping;
// users call check() before they publish a result, so readers need no guards. Other faults go to the previous handler.
#pragma once

#include <csignal>
#include <cstddef>
#include <span>
#include <string>

namespace ridge::core {

class MappedFile {
 public:
  // Throws Error if missing, a directory, unreadable or empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Throws Error if pages were missing or the file has shrunk. Costs a system call.
  void check() const;
  bool deleted() const; // unlinked; the mapping stays valid

  // Drops whole pages from memory; they are read again on access.
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

// Throws Error for missing pages that no check() has reported. Call it before reporting success.
void check_mappings();

} // namespace ridge::core
