// A file that appears whole or not at all: written under a temporary name beside its target, renamed over it when
// complete. Until then, whatever goes wrong (a full disk, a kill, an exception), a file that stood there stays as it
// was, and so does its mapping: writing over a model that is being read is safe.
//
// Where the file system can (O_TMPFILE), the file has no name at all until it is whole, so that even a killed process
// leaves nothing behind. Elsewhere it is PATH.partial-NUMBER, and the next writer removes what killed ones left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>

namespace ridge::core {

class AtomicFile {
 public:
  // Throws Error where the folder cannot be written to, where the target is something else than a regular file, or
  // where the disk has fewer than `expected_bytes` free.
  // mode: as of open(), from which the umask is taken; kPrivateFile (private_folder.h) for its owner alone.
  AtomicFile(const std::string& path, uint64_t expected_bytes, mode_t mode = 0666);
  ~AtomicFile(); // without commit(): removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Waits until the bytes are on the disk, then gives the file its name.
  void commit();
  // Gives the file its name at once. A power cut may leave it damaged: for files that can be lost, and say so.
  void publish();

 private:
  [[noreturn]] void fail(const char* action) const; // with errno's reason
  void discard() noexcept;
  std::string temporary_name(uint64_t number) const;
  void remove_leftovers() const;

  std::string path_, temporary_path_; // the latter is empty while the file has no name
  int fd_ = -1;
};

} // namespace ridge::core
