// A file that appears whole or not at all, by a rename when complete. Until then an existing file and its mappings stay
// intact: overwriting a model in use is safe.
// With O_TMPFILE, killed processes leave nothing. Otherwise it is PATH.partial-NUMBER, and the next writer removes
// leftovers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>

namespace ridge::core {

class AtomicFile {
 public:
  // Throws Error for unwritable folders, targets that are no regular files, and fewer than `expected_bytes` free. mode:
  // as for open(), or kPrivateFile.
  AtomicFile(const std::string& path, uint64_t expected_bytes, mode_t mode = 0666);
  ~AtomicFile(); // discards unless committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Syncs to disk, then renames.
  void commit();
  // Renames without sync, for expendable files: a power cut may damage them.
  void publish();

 private:
  [[noreturn]] void fail(const char* action) const;
  void discard() noexcept;
  std::string temporary_name(uint64_t number) const;
  void remove_leftovers() const;

  std::string path_, temporary_path_; // temporary_path_: empty while nameless
  int fd_ = -1;
};

} // namespace ridge::core
