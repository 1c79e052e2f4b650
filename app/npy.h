// NumPy's .npy format, version 1.0, for f32 arrays: what --out X.npy writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace ridge::app {

// Writes rows as they come, under a temporary name; finish() gives the file its name once it is whole. Without finish()
// nothing remains. Throws Error where the file cannot be written.
class NpyWriter {
 public:
  NpyWriter(std::string path, const std::vector<int64_t>& shape);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void append(std::span<const float> values);
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
};

} // namespace ridge::app
