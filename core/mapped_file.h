// A read-only memory-mapped file. Pages are read when touched, so opening a 50 GB model costs nothing.
#pragma once

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

  // The pages that lie wholly in `part`, a piece of bytes(), no longer count as this process's memory; they are read
  // again when touched.
  void release(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

} // namespace ridge::core
