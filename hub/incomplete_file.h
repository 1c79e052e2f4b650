// A partly downloaded file: pieces in any order, resumable by another process, locked while open.
// The progress record follows the file's last byte and is written after the data, so a killed process loses only
// uncounted bytes. A power cut may lose counted bytes: only the content's hash proves the file.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace ridge::hub {

inline constexpr const char* kIncompleteDownload = ".incomplete";

// Removes an interrupted download, unless a process is writing it. Returns freed bytes.
int64_t remove_interrupted_download(const std::string& path);

class IncompleteFile {
 public:
  // Calls wait() repeatedly while another process holds the lock; false gives up. Throws Error if the file cannot be
  // written.
  IncompleteFile(std::string path, const std::function<bool()>& wait);
  ~IncompleteFile();
  IncompleteFile(const IncompleteFile&) = delete;
  IncompleteFile& operator=(const IncompleteFile&) = delete;

  // Must be called first. Drops data of another `content`. Throws Error if the disk is too full.
  void begin(int64_t bytes, int64_t piece_bytes, const std::string& content);

  int64_t bytes() const { return bytes_; }
  int64_t pieces() const { return pieces_; }
  int64_t start_of(int64_t piece) const { return piece * piece_bytes_; }
  int64_t end_of(int64_t piece) const { return std::min(bytes_, (piece + 1) * piece_bytes_); }
  int64_t bytes_present(int64_t piece) const { return have_[piece]; } // bytes from the piece's start; thread-safe
  bool is_full(int64_t piece) const { return start_of(piece) + bytes_present(piece) == end_of(piece); }
  int64_t total_bytes_present() const;
  int64_t contiguous_bytes() const; // bytes without a gap

  // `at` must be the end of the piece's data. Threads may write different pieces.
  void write(int64_t at, std::span<const char> bytes);
  void note_progress(int64_t piece); // saves the progress on disk
  void discard_progress();           // drops all progress
  size_t read(int64_t at, std::span<char> bytes) const;

  void finish(const std::string& target); // syncs and renames
  void remove();

 private:
  // Delegated to, so that the destructor runs if the public constructor throws.
  explicit IncompleteFile(std::string path) : path_(std::move(path)) {}
  [[noreturn]] void fail(const char* action) const;
  void put(const void* data, size_t bytes, int64_t at) const;
  int64_t notes_at() const { return (bytes_ + 7) / 8 * 8; }

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0, piece_bytes_ = 0, pieces_ = 0;
  std::unique_ptr<std::atomic<int64_t>[]> have_;
};

} // namespace ridge::hub
