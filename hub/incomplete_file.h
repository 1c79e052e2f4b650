// A file that is being downloaded: in pieces, in any order, going on where another process was stopped or killed.
//
// Behind the place of the file's last byte stands which bytes are there. It is written after them, so whatever a killed
// process wrote last is there or is fetched again. Nothing but the content's hash says that it is right: a power cut
// may lose bytes that were counted. The file is locked while it is open: two processes take turns.
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

inline constexpr const char* kIncompleteDownload = ".incomplete"; // behind the name of a file of an address

// Removes what a stopped pull left at `path`, if anything, but not what a process is writing. Returns the bytes that
// are free then.
int64_t remove_stopped(const std::string& path);

class IncompleteFile {
 public:
  // Opens or makes the file at `path`. Calls wait() again and again while another process has it; gives up where it
  // returns false. Throws Error where the file cannot be written.
  IncompleteFile(std::string path, const std::function<bool()>& wait);
  ~IncompleteFile();
  IncompleteFile(const IncompleteFile&) = delete;
  IncompleteFile& operator=(const IncompleteFile&) = delete;

  // Before all else: how long the file will be, in pieces of how many bytes, and which content it is to have. What is
  // there of another content is dropped. Throws Error where the disk has too little room.
  void begin(int64_t bytes, int64_t piece_bytes, const std::string& content);

  int64_t bytes() const { return bytes_; }
  int64_t pieces() const { return pieces_; }
  int64_t start_of(int64_t piece) const { return piece * piece_bytes_; }
  int64_t end_of(int64_t piece) const { return std::min(bytes_, (piece + 1) * piece_bytes_); }
  int64_t have(int64_t piece) const { return have_[piece]; } // bytes from its start on; from any thread
  bool is_full(int64_t piece) const { return start_of(piece) + have(piece) == end_of(piece); }
  int64_t have_in_all() const;
  int64_t have_from_start() const; // without a gap

  // Bytes at `at`, which lies at the end of what its piece has, and inside of it. Threads may write different pieces.
  void write(int64_t at, std::span<const char> bytes);
  void note_progress(int64_t piece); // for the next process
  void forget();                     // that anything is there
  size_t read(int64_t at, std::span<char> bytes) const;

  void finish(const std::string& target); // on the disk and under its name
  void remove();

 private:
  explicit IncompleteFile(std::string path) : path_(std::move(path)) {} // then the destructor runs, whatever is thrown
  [[noreturn]] void fail(const char* action) const;                     // with errno's reason
  void put(const void* data, size_t bytes, int64_t at) const;
  int64_t notes_at() const { return (bytes_ + 7) / 8 * 8; }

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0, piece_bytes_ = 0, pieces_ = 0;
  std::unique_ptr<std::atomic<int64_t>[]> have_;
};

} // namespace ridge::hub
