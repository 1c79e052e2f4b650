// A file that appears whole or not at all: written under a temporary name beside its target, renamed over it when
// complete. Until then, whatever goes wrong (a full disk, a kill, an exception), a file that stood there stays as it
// was, and so does its mapping: writing over a model that is being read is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ridge::core {

class AtomicFile {
 public:
  // Creates PATH.partial-NUMBER (which a killed process leaves behind). Throws Error where the folder cannot be written
  // to, where the target is something else than a regular file, or where the disk has fewer than `expected_bytes` free.
  AtomicFile(const std::string& path, uint64_t expected_bytes);
  ~AtomicFile(); // without commit(): removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Waits until the bytes are on the disk, then gives the file its name.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const; // with errno's reason
  void discard() noexcept;

  std::string path_, temporary_path_;
  int fd_ = -1;
};

} // namespace ridge::core
